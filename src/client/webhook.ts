import type { WebhookEvent } from './types.ts'

/** Several events in one request, for an endpoint with `batch`; each is what it would be alone. */
export interface WebhookBatch {
  object: 'batch'
  /** The same on every try, with the same events in it. */
  id: string
  /** Oldest first. */
  events: WebhookEvent[]
}

/** Whether a request of a webhook is several events. */
export function isBatch (body: WebhookEvent | WebhookBatch): body is WebhookBatch {
  return 'object' in body && body.object === 'batch'
}

type Body = string | Uint8Array | ArrayBuffer

export interface SignedRequest {
  /** The request's body as it came, before any parsing. */
  body: Body
  /** Of fetch, or of Node's `request.headers`. */
  headers: Headers | Record<string, string | string[] | undefined>
  /** The endpoint's signing secret, or all that may be in use while one follows another. */
  secret: string | readonly string[]
  /** How far `webhook-timestamp` may be from now, in seconds: 300 unless told. Told, there must be one, so that nobody
   *  can send an old event again. */
  toleranceS?: number
}

/** A request that is not from the holder of the secret, or not from now. */
export class WebhookSignatureError extends Error {
  override readonly name = 'WebhookSignatureError'
}

/** The event of a webhook request, or the batch of events, once its signature holds. The headers of Standard Webhooks,
 *  which bind the time as well, are looked at where they are, else `X-Service-Signature`. Throws WebhookSignatureError.
 *  Source: spec 6.3; standardwebhooks.com. */
export async function verifyWebhook (
  { body, headers, secret, toleranceS }: SignedRequest
): Promise<WebhookEvent | WebhookBatch> {
  const bytes = bytesOf(body)
  const secrets = [secret].flat()
  const header = readerOf(headers)
  const isStandard = header('webhook-signature') !== null
  if (!isStandard && toleranceS !== undefined) {
    throw new WebhookSignatureError('The request does not say when it was signed')
  }
  if (isStandard) checkTime(header('webhook-timestamp'), toleranceS ?? TOLERANCE_S)
  const holds = isStandard
    ? await holdsStandard(bytes, header, secrets)
    : await holdsPlain(bytes, header('x-service-signature'), secrets)
  if (!holds) throw new WebhookSignatureError('The signature is not one of this body with this secret')
  return JSON.parse(new TextDecoder().decode(bytes)) as WebhookEvent | WebhookBatch
}

const TOLERANCE_S = 300
/** Two are there while one secret follows another; nobody needs so many. */
const SIGNATURES_MAX = 10
const encoder = new TextEncoder()

type Bytes = Uint8Array<ArrayBuffer>

function bytesOf (body: Body): Bytes {
  if (typeof body === 'string') return encoder.encode(body)
  if (ArrayBuffer.isView(body) || body instanceof ArrayBuffer) return new Uint8Array(body)
  throw new TypeError('body is the raw body of the request: text or bytes, not what was parsed from it')
}

function readerOf (headers: SignedRequest['headers']): (name: string) => string | null {
  if (isHeaders(headers)) return name => headers.get(name)
  const found = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value].flat()[0]]))
  return name => found.get(name) ?? null
}

/** Also those of another fetch than the global one. */
function isHeaders (headers: SignedRequest['headers']): headers is Headers {
  return typeof headers.get === 'function'
}

function checkTime (text: string | null, toleranceS: number): void {
  const offS = /^\d+$/.test(text ?? '') ? Math.abs(Date.now() / 1000 - Number(text)) : NaN
  if (!(offS <= toleranceS)) throw new WebhookSignatureError(`The request was not signed within ${toleranceS} s of now`)
}

async function holdsPlain (body: Bytes, given: string | null, secrets: string[]): Promise<boolean> {
  const [, hex] = /^sha256=([0-9a-f]{64})$/.exec(given ?? '') ?? []
  if (hex === undefined) return false
  const signature = Uint8Array.from(hex.match(/../g)!, pair => Number.parseInt(pair, 16))
  return await anyHolds(secrets.map(secret => encoder.encode(secret)), [signature], body)
}

/** Signs id, time and body, keyed with what the secret's base64 stands for. */
async function holdsStandard (
  body: Bytes,
  header: (name: string) => string | null,
  secrets: string[]
): Promise<boolean> {
  const signatures = header('webhook-signature')!.split(' ', SIGNATURES_MAX).filter(text => text.startsWith('v1,')).map(
    text => fromBase64(text.slice('v1,'.length))
  )
  const head = encoder.encode(`${header('webhook-id')}.${header('webhook-timestamp')}.`)
  const signed = new Uint8Array(head.length + body.length)
  signed.set(head)
  signed.set(body, head.length)
  return await anyHolds(secrets.map(secret => fromBase64(secret.replace(/^whsec_/, ''))), signatures, signed)
}

/** Empty for what is no base64. */
function fromBase64 (text: string): Bytes {
  try {
    return Uint8Array.from(atob(text), character => character.charCodeAt(0))
  } catch {
    return new Uint8Array()
  }
}

/** WebCrypto compares in constant time. */
async function anyHolds (secrets: Bytes[], signatures: Bytes[], signed: Bytes): Promise<boolean> {
  for (const secret of secrets.filter(({ length }) => length > 0)) {
    const key = await crypto.subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
    for (const signature of signatures) if (await crypto.subtle.verify('HMAC', key, signature, signed)) return true
  }
  return false
}
