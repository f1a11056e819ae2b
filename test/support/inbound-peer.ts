import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { deadline } from '#src/base/errors.ts'

/** A remote mail server at its bluntest: says lines, hears replies. */
export interface Peer {
  socket: Socket
  /** What it was greeted with. */
  greeting: string
  /** Says a line (CRLF added), resolves to the whole reply. */
  say(line: string): Promise<string>
  /** The next reply, said to nothing. */
  hear(): Promise<string>
  close(): void
}

const ANSWER_MS = 20_000

export async function dial (port: number): Promise<Peer> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  return await speakOver(socket)
}

/** Talks over a line that is open already; `greeted` = nothing is said first. */
export async function speakOver (socket: Socket, greeted = false): Promise<Peer> {
  const replies: string[] = []
  let text = ''
  let tell = () => {}
  let gone = false
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    text += chunk
    for (let match = next(); match !== null; match = next()) {
      replies.push(match[0].trimEnd())
      text = text.slice(match[0].length)
    }
    tell()
  })
  socket.on('error', () => {}).on('close', () => {
    gone = true
    tell()
  })
  const next = () => /^(?:\d{3}-.*\r\n)*\d{3} .*\r\n/.exec(text)

  async function hear (): Promise<string> {
    const heard = new Promise<void>(resolve => {
      tell = () => {
        if (replies.length > 0 || gone) resolve()
      }
      tell()
    })
    await deadline(heard, ANSWER_MS, 'the listener does not answer')
    return replies.shift() ?? 'gone'
  }

  const say = async (line: string) => {
    socket.write(`${line}\r\n`)
    return await hear()
  }
  return { socket, greeting: greeted ? '' : await hear(), say, hear, close: () => void socket.destroy() }
}

export interface PeerMail {
  from?: string
  to: string | string[]
  raw: string | Buffer
}

/** Hands in one mail and leaves; resolves to the reply to the first command that was refused, or to the final dot. */
export async function handIn (port: number, { from = '', to, raw }: PeerMail): Promise<string> {
  const peer = await dial(port)
  try {
    await peer.say('EHLO mx.example.net')
    for (const line of [`MAIL FROM:<${from}>`, ...[to].flat().map(address => `RCPT TO:<${address}>`)]) {
      const reply = await peer.say(line)
      if (!reply.startsWith('2')) return reply
    }
    await peer.say('DATA')
    peer.socket.write(Buffer.from(raw))
    const reply = await peer.say('\r\n.')
    await peer.say('QUIT')
    return reply
  } finally {
    peer.close()
  }
}

const crlf = (lines: string[]): string => lines.join('\r\n')

export interface Dsn {
  to: string
  action?: string
  status?: string
  diagnostic?: string
  returned?: string
}

/** A delivery status notification as RFC 3464 has it. */
export function dsn (
  {
    to,
    action = 'failed',
    status = '5.1.1',
    diagnostic = 'smtp; 550 5.1.1 no such user here',
    returned = 'Subject: Hello'
  }: Dsn
): string {
  return crlf([
    'From: Mail Delivery System <MAILER-DAEMON@mx.example.net>',
    'To: sender@example.com',
    'Subject: Undelivered Mail Returned to Sender',
    'Auto-Submitted: auto-replied',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary="b1"',
    '',
    '--b1',
    'Content-Type: text/plain',
    '',
    `About your mail to ${to}: ${diagnostic}`,
    '',
    '--b1',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; mx.example.net',
    '',
    `Final-Recipient: rfc822; ${to}`,
    `Action: ${action}`,
    `Status: ${status}`,
    'Remote-MTA: dns; mailbox.example.net',
    `Diagnostic-Code: ${diagnostic}`,
    '',
    '--b1',
    'Content-Type: text/rfc822-headers',
    '',
    returned,
    '',
    '--b1--',
    ''
  ])
}

/** A feedback report as RFC 5965 has it, with the recipient withheld. */
export function arf ({ type = 'abuse', returned }: { type?: string, returned: string }): string {
  return crlf([
    'From: <feedback@provider.example>',
    'To: <fbl@example.com>',
    'Subject: FW: Hello',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=feedback-report; boundary="b2"',
    '',
    '--b2',
    'Content-Type: text/plain',
    '',
    'This is an email abuse report.',
    '',
    '--b2',
    'Content-Type: message/feedback-report',
    '',
    `Feedback-Type: ${type}`,
    'User-Agent: Loop/1.0',
    'Version: 1',
    '',
    '--b2',
    'Content-Type: message/rfc822',
    '',
    returned,
    '',
    'Hello',
    '',
    '--b2--',
    ''
  ])
}

/** An out-of-office reply. */
export function vacation (to: string): string {
  return crlf([
    'From: <ada@example.com>',
    `To: <${to}>`,
    'Subject: Out of office: Hello',
    'Auto-Submitted: auto-replied',
    'Precedence: junk',
    '',
    'I am away until Monday. User unknown here in the meantime.',
    ''
  ])
}

export function letter (subject: string): string {
  return crlf([
    'From: <ada@example.com>',
    'To: <someone@example.com>',
    `Subject: ${subject}`,
    'Message-ID: <1@example.com>',
    '',
    'Please.',
    ''
  ])
}
