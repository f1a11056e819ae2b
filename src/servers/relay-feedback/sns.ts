import { createVerify, X509Certificate, type KeyObject } from 'node:crypto'
import { Client } from 'undici'
import { Memory } from '#src/base/memory.ts'
import { readAtMost } from '#src/base/read.ts'
import { createConnector } from '#src/dns/guard.ts'
import { objectOf, textOf, type JsonObject } from '#src/feedback/json.ts'

/** Gets an https URL. Throws for anything but a 200, and when it takes too long. */
export type FetchText = (url: string) => Promise<string>

/** The message is not what Amazon SNS signed, or not for this source. */
export class NotFromSns extends Error {}

/** What an SNS message comes to. */
export type SnsMessage = { type: 'notification', message: string } | { type: 'confirmed' | 'unsubscribed' }

const FETCH_MS = 5000
const BYTES_MAX = 64 * 1024
/** Amazon has one a region, and changes it once in a while. */
const CERTIFICATES_MAX = 50
/** Those of all regions, and of China. Source: Amazon SNS Developer Guide, "Verifying the signatures of Amazon SNS
 *  messages". */
const HOST = /^sns\.[a-z0-9-]{1,30}\.amazonaws\.com(\.cn)?$/
const DIGESTS: Record<string, string> = { 1: 'RSA-SHA1', 2: 'RSA-SHA256' }
/** The fields that are signed, in this order, by type. Source: the same. */
const SIGNED: Record<string, string[]> = {
  Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'],
  SubscriptionConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
  UnsubscribeConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type']
}

/** Verifies messages of Amazon SNS, and confirms the subscription of a source's own topic. */
export class Sns {
  private readonly fetchText: FetchText
  private readonly keys = new Memory<Promise<CertificateKey>>(CERTIFICATES_MAX)

  constructor (fetchText: FetchText = fetchPublic) {
    this.fetchText = fetchText
  }

  /** Throws NotFromSns; another error when Amazon cannot be asked now. */
  async read (body: unknown, topicArn: string, nowMs: number): Promise<SnsMessage> {
    const message = objectOf(body) ?? {}
    const type = textOf(message['Type'])
    if (message['TopicArn'] !== topicArn) throw new NotFromSns('it is of another topic')
    await this.verify(message, type, nowMs)
    // Not cut: a notification has up to 256 kB.
    if (type === 'Notification') return { type: 'notification', message: String(message['Message']) }
    if (type === 'UnsubscribeConfirmation') return { type: 'unsubscribed' }
    await this.fetchText(subscribeUrlIn(message, topicArn))
    return { type: 'confirmed' }
  }

  private async verify (message: JsonObject, type: string, nowMs: number): Promise<void> {
    const fields = SIGNED[type]
    const digest = DIGESTS[textOf(message['SignatureVersion'])]
    if (fields === undefined || digest === undefined) throw new NotFromSns('its type or signature version is unknown')
    const present = fields.filter(name => typeof message[name] === 'string')
    const text = present.map(name => `${name}\n${message[name] as string}\n`).join('')
    const { key, fromMs, untilMs } = await this.keyAt(textOf(message['SigningCertURL']))
    if (nowMs < fromMs || nowMs > untilMs) throw new NotFromSns('its certificate is not valid now')
    const signature = Buffer.from(textOf(message['Signature']), 'base64')
    if (!createVerify(digest).update(text).verify(key, signature)) throw new NotFromSns('its signature is wrong')
  }

  private async keyAt (url: string): Promise<CertificateKey> {
    const { pathname, href } = amazonUrl(url)
    if (!/^\/[\w/-]{1,200}\.pem$/.test(pathname)) throw new NotFromSns('its certificate is at an unusual place')
    const known = this.keys.get(href)
    if (known !== undefined) return await known
    const asked = this.fetchText(href).then(certificateKey)
    this.keys.set(href, asked)
    // The next message asks again.
    asked.catch(() => this.keys.delete(href))
    return await asked
  }
}

interface CertificateKey {
  key: KeyObject
  fromMs: number
  untilMs: number
}

function certificateKey (pem: string): CertificateKey {
  const { publicKey: key, validFromDate, validToDate } = new X509Certificate(pem)
  if (key.asymmetricKeyType !== 'rsa') throw new NotFromSns('its certificate is of another kind')
  return { key, fromMs: validFromDate.getTime(), untilMs: validToDate.getTime() }
}

/** Throws NotFromSns for a URL of anybody else's. */
function amazonUrl (text: string): URL {
  const url = URL.parse(text)
  const isTheirs = url !== null && url.protocol === 'https:' && url.port === '' && url.username === '' &&
    url.password === '' && HOST.test(url.hostname)
  if (!isTheirs) throw new NotFromSns('its URL is not of Amazon SNS')
  return url
}

function subscribeUrlIn (message: JsonObject, topicArn: string): string {
  const url = amazonUrl(textOf(message['SubscribeURL']))
  const { searchParams: query } = url
  if (query.get('Action') !== 'ConfirmSubscription' || query.get('TopicArn') !== topicArn) {
    throw new NotFromSns('its SubscribeURL does something else')
  }
  return url.href
}

/** From public addresses alone, without a redirect. */
async function fetchPublic (url: string): Promise<string> {
  const { origin, pathname, search } = new URL(url)
  const client = new Client(origin, { connect: createConnector(false), maxHeaderSize: 16_384 })
  try {
    const signal = AbortSignal.timeout(FETCH_MS)
    const { statusCode, body } = await client.request({ method: 'GET', path: pathname + search, signal })
    const text = (await readAtMost(body, BYTES_MAX, 'the answer is too large')).toString('utf8')
    if (statusCode !== 200) throw new Error(`${new URL(url).host} answers ${statusCode}`)
    return text
  } finally {
    void client.destroy().catch(() => {})
  }
}
