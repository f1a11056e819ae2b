import { createHmac } from 'node:crypto'

export interface Signing {
  /** The whole secret as it was shown: `whsec_` and base64. */
  secret: string
  /** The event's id: `webhook-id` stays the same on every try. */
  id: string
  /** Unix seconds of this try. */
  timestampS: number
  body: Uint8Array
}

/** The headers that prove a callback is ours: spec 6.3's, keyed with the secret's text, and beside it the three of Standard Webhooks,
 *  keyed with the bytes after `whsec_`, which also bind id and time. Source: spec 6.3; standardwebhooks.com. */
export function signatureHeaders ({ secret, id, timestampS, body }: Signing): Record<string, string> {
  const digest = createHmac('sha256', secret).update(body).digest('hex')
  const standardKey = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const standard = createHmac('sha256', standardKey).update(`${id}.${timestampS}.`).update(body).digest('base64')
  return {
    'X-Service-Signature': `sha256=${digest}`,
    'webhook-id': id,
    'webhook-timestamp': String(timestampS),
    'webhook-signature': `v1,${standard}`
  }
}
