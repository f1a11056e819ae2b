import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

/** A signing secret as key objects, created once: a key passed as bytes costs five times the signature. */
export interface SigningKeys {
  /** The whole secret as it was shown, `whsec_` and base64. */
  text: KeyObject
  /** The bytes after `whsec_`. */
  bytes: KeyObject
}

export function signingKeys (secret: string): SigningKeys {
  return { text: createSecretKey(secret, 'utf8'), bytes: createSecretKey(secret.slice('whsec_'.length), 'base64') }
}

export interface SignatureInput {
  keys: SigningKeys
  /** The keys of the secret before a rotation, while it still signs. */
  previous: SigningKeys | null
  /** The event's id: `webhook-id` is the same on every attempt. */
  id: string
  /** Unix seconds of this attempt. */
  timestampS: number
  body: Uint8Array
}

/** The headers that prove a callback is ours: spec 6.3's, keyed with the secret's text, and the three of Standard
 *  Webhooks, keyed with the bytes after `whsec_`, which also sign id and time. While a rotation overlaps, both secrets
 *  sign in the list, newest first; the spec's header holds one signature, the old secret's. Source: spec 6.3; contract,
 *  "Webhooks"; standardwebhooks.com. */
export function signatureHeaders ({ keys, previous, id, timestampS, body }: SignatureInput): Record<string, string> {
  const digest = createHmac('sha256', (previous ?? keys).text).update(body).digest('hex')
  const standard = ({ bytes }: SigningKeys) =>
    `v1,${createHmac('sha256', bytes).update(`${id}.${timestampS}.`).update(body).digest('base64')}`
  return {
    'X-Service-Signature': `sha256=${digest}`,
    'webhook-id': id,
    'webhook-timestamp': String(timestampS),
    'webhook-signature': previous === null ? standard(keys) : `${standard(keys)} ${standard(previous)}`
  }
}
