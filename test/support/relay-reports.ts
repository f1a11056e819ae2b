import { createHmac, createSign, generateKeyPairSync, randomBytes } from 'node:crypto'

/** The mail that a relay reports on. */
export interface ReportedMail {
  /** Of the email and the recipient: `em_….0`. */
  name: string
  messageId: string
  to: string
  from: string
}

const AT = '2026-11-24T12:00:00.000Z'
const AT_S = Date.parse(AT) / 1000
let made = 0
const unique = () => `${Date.now()}-${++made}`

/** What Amazon SES writes into a notification. Source: Amazon SES Developer Guide, "Examples of event data that Amazon
 *  SES publishes to Amazon SNS". */
export function sesEvent (type: string, part: object, mail: ReportedMail, more: object = {}): object {
  const names: Record<string, string> = { DeliveryDelay: 'deliveryDelay', 'Rendering Failure': 'failure' }
  return {
    eventType: type,
    [names[type] ?? type.toLowerCase()]: { timestamp: AT, ...part },
    mail: {
      timestamp: AT,
      source: mail.from,
      sendingAccountId: '123456789012',
      messageId: `0107-${unique()}`,
      destination: [mail.to],
      headersTruncated: false,
      headers: [
        { name: 'From', value: 'hello@sandbox.jetpost.test' },
        { name: 'To', value: mail.to },
        { name: 'Message-ID', value: mail.messageId }
      ],
      commonHeaders: { to: [mail.to], messageId: mail.messageId },
      tags: { 'ses:source-ip': ['192.0.2.1'] },
      ...more
    }
  }
}

export function sesBounce (mail: ReportedMail, recipient: object = {}, part: object = {}): object {
  const stated = {
    emailAddress: mail.to,
    action: 'failed',
    status: '5.1.1',
    diagnosticCode: 'smtp; 550 5.1.1 user unknown',
    ...recipient
  }
  return sesEvent('Bounce', {
    bounceType: 'Permanent',
    bounceSubType: 'General',
    bouncedRecipients: [stated],
    feedbackId: `0107-${unique()}`,
    reportingMTA: 'dns; e1.smtp-out.eu-central-1.amazonses.com',
    ...part
  }, mail)
}

export const MAILGUN_KEY = 'a-signing-key-of-mailgun'

/** Source: Mailgun documentation, "Webhooks", "Securing webhooks". */
export function mailgunEvent (
  event: string,
  mail: ReportedMail,
  data: object = {},
  { key = MAILGUN_KEY, timestamp = Math.floor(Date.now() / 1000), token = randomBytes(25).toString('hex') } = {}
): object {
  const signature = createHmac('sha256', key).update(`${timestamp}${token}`).digest('hex')
  return {
    signature: { timestamp: String(timestamp), token, signature },
    'event-data': {
      event,
      id: unique(),
      timestamp: AT_S + 0.25,
      'log-level': 'error',
      recipient: mail.to,
      'recipient-domain': 'example.com',
      message: {
        headers: { to: mail.to, 'message-id': mail.messageId.slice(1, -1), from: 'hello@sandbox.jetpost.test' },
        size: 1024,
        attachments: []
      },
      envelope: { sender: mail.from, transport: 'smtp', targets: mail.to },
      'user-variables': {},
      tags: [],
      ...data
    }
  }
}

/** Source: Postmark Developer documentation, "Bounce webhook" and its siblings. */
export function postmarkRecord (record: string, mail: ReportedMail, more: object = {}): object {
  const shared = { RecordType: record, MessageID: unique(), ServerID: 23, MessageStream: 'outbound' }
  const metadata = { Metadata: { jetpost: mail.name }, Tag: '' }
  switch (record) {
    case 'Delivery':
      return { ...shared, ...metadata, Recipient: mail.to, DeliveredAt: AT, Details: 'Test delivery', ...more }
    case 'SubscriptionChange':
      return {
        ...shared,
        ...metadata,
        ChangedAt: AT,
        Recipient: mail.to,
        Origin: 'Recipient',
        SuppressSending: true,
        SuppressionReason: 'ManualSuppression',
        ...more
      }
    default:
      return {
        ...shared,
        ...metadata,
        ID: ++made + 4e9,
        Type: record === 'SpamComplaint' ? 'SpamComplaint' : 'HardBounce',
        TypeCode: 1,
        Name: 'Hard bounce',
        Description: 'The server was unable to deliver your message (ex: unknown user, mailbox not found).',
        Details: '',
        Email: mail.to,
        From: 'hello@sandbox.jetpost.test',
        BouncedAt: AT,
        Inactive: true,
        CanActivate: true,
        Subject: 'Hello',
        ...more
      }
  }
}

const SENDGRID = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
export const SENDGRID_KEY = SENDGRID.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')

/** Source: Twilio SendGrid documentation, "Event Webhook Reference". */
export function sendgridEvent (event: string, mail: ReportedMail, more: object = {}): object {
  return {
    email: mail.to,
    timestamp: AT_S,
    'smtp-id': mail.messageId,
    event,
    category: [],
    sg_event_id: unique(),
    sg_message_id: `filter.${unique()}`,
    ...more
  }
}

/** Source: Twilio SendGrid documentation, "Event Webhook Security Features". */
export function sendgridHeaders (
  body: string,
  timestamp = String(Math.floor(Date.now() / 1000)),
  key = SENDGRID.privateKey
): Record<string, string> {
  return {
    'x-twilio-email-event-webhook-timestamp': timestamp,
    'x-twilio-email-event-webhook-signature': createSign('sha256').update(timestamp + body).sign(key, 'base64')
  }
}

/** Source: Brevo API documentation, "Transactional webhooks". */
export function brevoEvent (event: string, mail: ReportedMail, more: object = {}): object {
  return {
    event,
    email: mail.to,
    id: 26224,
    date: '2026-11-24 13:00:00',
    ts: AT_S,
    'message-id': mail.messageId,
    ts_event: AT_S + ++made,
    subject: 'Hello',
    sending_ip: '192.0.2.7',
    template_id: 0,
    ...more
  }
}
