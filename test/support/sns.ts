import { execFileSync } from 'node:child_process'
import { createSign, randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const TOPIC = 'arn:aws:sns:eu-central-1:123456789012:jetpost'
export const SNS_HOST = 'sns.eu-central-1.amazonaws.com'
const CERTIFICATE = `https://${SNS_HOST}/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem`
const FIELDS = ['Message', 'MessageId', 'SubscribeURL', 'Subject', 'Timestamp', 'Token', 'TopicArn', 'Type']

type SnsBody = Record<string, string>

/** Amazon SNS as its documentation has it, with a certificate of the test's own. */
export interface TestSns {
  /** What the app fetches from Amazon. Throws for other URLs than the certificate's and those of subscriptions. */
  fetchText(url: string): Promise<string>
  /** All that was fetched. */
  fetched: string[]
  notification(message: object | string, more?: SnsBody): SnsBody
  confirmation(more?: SnsBody): SnsBody
  /** Signs what is there now, with the key of the certificate; `version` 1 = SHA-1, 2 = SHA-256. */
  sign(body: SnsBody, version?: '1' | '2'): SnsBody
}

export function createTestSns (): TestSns {
  const { key, cert } = createCertificate()
  const fetched: string[] = []
  const sign: TestSns['sign'] = (body, version = '2') => {
    const text = FIELDS.filter(name => name in body).map(name => `${name}\n${body[name]}\n`).join('')
    const signature = createSign(version === '1' ? 'RSA-SHA1' : 'RSA-SHA256').update(text).sign(key, 'base64')
    return { ...body, SignatureVersion: version, Signature: signature }
  }
  const common = () => ({
    MessageId: randomUUID(),
    TopicArn: TOPIC,
    Timestamp: '2026-11-24T12:00:00.000Z',
    SigningCertURL: CERTIFICATE
  })
  return {
    fetched,
    async fetchText (url) {
      fetched.push(url)
      if (url === CERTIFICATE) return cert
      if (url.startsWith(`https://${SNS_HOST}/?Action=ConfirmSubscription`)) return '<ConfirmSubscriptionResponse/>'
      throw new Error(`nothing is at ${url}`)
    },
    notification: (message, more = {}) =>
      sign({
        Type: 'Notification',
        Message: typeof message === 'string' ? message : JSON.stringify(message),
        ...common(),
        ...more
      }),
    confirmation: (more = {}) =>
      sign({
        Type: 'SubscriptionConfirmation',
        Message: `You have chosen to subscribe to the topic ${TOPIC}.`,
        Token: 'a-token',
        SubscribeURL: `https://${SNS_HOST}/?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=a-token`,
        ...common(),
        ...more
      }),
    sign
  }
}

/** Amazon's certificates are of RSA. */
function createCertificate (): { key: string, cert: string } {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-sns-'))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const subject = ['-subj', '/CN=sns.amazonaws.com', '-days', '2']
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, ...subject], {
    stdio: 'pipe'
  })
  const made = { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
  rmSync(folder, { recursive: true })
  return made
}
