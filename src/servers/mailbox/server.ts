import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { newId } from '#src/base/id.ts'
import { deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { InboundMail } from '#src/actions/inbound.ts'
import { timestamp } from '#src/base/clock.ts'
import type { CaughtMail, CaughtMailbox } from '#src/operations/caught-mail.ts'
import { complaintAbout, outcomeOf, rejectionOf, type SandboxOutcome } from './sandbox.ts'

/** A mailbox for everybody: takes any mail, delivers none, forgets the oldest. */
export interface Catcher extends CaughtMailbox {
  /** `smtp://127.0.0.1:port` */
  url: string
  stop(): Promise<void>
}

export interface CatcherOptions {
  /** null = a free one. */
  port: number | null
  host: string
  /** How many mails are kept. */
  keepMax: number
  /** Takes the complaint that a test address makes, as if it had come by SMTP. */
  comeBack: (mail: InboundMail) => Promise<unknown>
  log: Log
}

const MESSAGE_BYTES_MAX = 25 * 1024 * 1024
const KEPT_BYTES_MAX = 200 * 1024 * 1024
const CLIENTS_MAX = 1200
const RECIPIENTS_MAX = 100
const STOP_MS = 2000

/** Listens for SMTP without TLS or login, so on a loopback host only. Keeps the newest `keepMax` mails, and 200 MB, in
 *  memory. Rejects when the port is taken. */
export async function startCatcher ({ port, host, keepMax, comeBack, log }: CatcherOptions): Promise<Catcher> {
  const kept: CaughtMail[] = []
  let keptBytes = 0

  function keep (mail: CaughtMail): void {
    kept.push(mail)
    keptBytes += mail.raw.length
    while (kept.length > keepMax || keptBytes > KEPT_BYTES_MAX) keptBytes -= kept.shift()!.raw.length
  }

  function onData (
    stream: SMTPServerDataStream,
    session: SMTPServerSession,
    callback: (error?: Error | null, text?: string) => void
  ): void {
    const chunks: Buffer[] = []
    let bytes = 0
    stream.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= MESSAGE_BYTES_MAX) chunks.push(chunk)
    })
    stream.on('end', () => {
      if (bytes > MESSAGE_BYTES_MAX) return callback(refusal(552, '5.3.4 The message is too big'))
      const { mailFrom, rcptTo } = session.envelope
      const receivedMs = Date.now()
      const id = newId('msg', receivedMs)
      const from = mailFrom === false ? '' : mailFrom.address
      const mail = { id, receivedMs, from, to: rcptTo.map(({ address }) => address), raw: Buffer.concat(chunks) }
      keep(mail)
      answer(mail, session, callback)
    })
  }

  function answer (
    mail: CaughtMail,
    session: SMTPServerSession,
    callback: (error?: Error | null, text?: string) => void
  ): void {
    const manners = new Set<SandboxOutcome>(mail.to.map(outcomeOf))
    if (manners.has('indoubt')) return hangUp(session)
    const done = manners.has('complained') ? complain(mail) : Promise.resolve()
    done.then(
      () => callback(null, `2.0.0 caught as ${mail.id}`),
      () => callback(refusal(451, '4.3.0 The complaint could not be kept'))
    )
  }

  async function complain ({ from, to, raw, receivedMs }: CaughtMail): Promise<void> {
    const address = to.find(address => outcomeOf(address) === 'complained')!
    const report = complaintAbout({ from, to: address, raw, date: timestamp(receivedMs) })
    await comeBack({
      from: '',
      to: [`fbl@${SANDBOX_DOMAIN}`],
      remote: '127.0.0.1',
      raw: report,
      sizeBytes: report.length
    })
  }

  /** Takes the dot and says nothing: who sent it cannot know what became of the mail. */
  function hangUp ({ id }: SMTPServerSession): void {
    for (const connection of server.connections) if (connection.session.id === id) connection.close()
  }

  const server = new SMTPServer({
    name: 'catcher',
    banner: 'Jetpost mail catcher',
    disabledCommands: ['AUTH', 'STARTTLS'],
    authOptional: true,
    disableReverseLookup: true,
    size: MESSAGE_BYTES_MAX,
    maxClients: CLIENTS_MAX,
    socketTimeout: 120_000,
    closeTimeout: STOP_MS,
    logger: false,
    onRcptTo: ({ address }, session, callback) => {
      if (session.envelope.rcptTo.length >= RECIPIENTS_MAX) return callback(refusal(452, '4.5.3 Too many recipients'))
      const no = rejectionOf(outcomeOf(address))
      callback(no === null ? null : refusal(no.responseCode, no.message))
    },
    onData
  })
  server.on('error', error => log.debug({ err: error }, 'catcher lost a client'))
  const listening = once(server.server, 'listening')
  server.listen(port ?? 0, host)
  await listening
  const { port: bound } = server.server.address() as AddressInfo
  return {
    url: `smtp://${host}:${bound}`,
    messages: () => kept.toReversed(),
    message: id => kept.find(mail => mail.id === id) ?? null,
    stop: () =>
      deadline(new Promise<void>(resolve => server.close(resolve)), STOP_MS + 1000, 'the catcher did not stop').catch(
        () => {}
      )
  }
}

function refusal (responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode })
}
