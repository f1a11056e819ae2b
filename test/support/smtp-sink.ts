import { createServer, type Server, type Socket } from 'node:net'
import { once } from 'node:events'
import { TLSSocket } from 'node:tls'

/** What the sink does when a transaction comes to a stage: say this reply (CRLF added), say nothing for ever, cut the
 *  line by RST, say it and cut the line at once, or say it late: after a time, or once something has happened. */
export type Act =
  | string
  | 'hang'
  | 'reset'
  | { reply: string, thenReset: true }
  | { reply: string, afterMs: number }
  | { reply: string, after: Promise<unknown> }

/** Acts by stage; `body` = as soon as the first bytes after 354 are in; `dot` = when the final dot is. What is left out
 *  goes well. */
export interface Behaviour {
  mail?: Act
  rcpt?: Act
  data?: Act
  body?: Act
  dot?: Act
}

/** One message that came as far as DATA. */
export interface Received {
  from: string
  to: string
  /** The client's address. */
  peer: string
  /** Its MAIL and RCPT commands. */
  commands: string[]
  /** As it came, dot-stuffing undone; what had come of it when the line broke. */
  raw: Buffer
  messageId: string | null
  date: string | null
  /** The final dot came. */
  dot: boolean
  /** It was answered with 2xx. */
  accepted: boolean
  /** Unix ms of the dot, or of the line's end. */
  atMs: number
}

export interface Sink {
  /** `smtp://127.0.0.1:port` */
  url: string
  port: number
  /** All messages, in the order they ended. */
  received: Received[]
  /** The address behaves so for the next `times` transactions; several calls queue up; at the end all goes well again.
   */
  replies(address: string, behaviour: Behaviour, times?: number): void
  /** What the next connections are greeted with; null = properly. */
  greet(act: Act | null): void
  /** RCPT commands seen for the address. */
  attempts(address: string): number
  /** Accepted messages, by Message-ID. */
  copies(): Map<string, Received[]>
  /** Resolves once `count` messages ended with a dot, or rejects after `timeoutMs`. */
  dots(count: number, timeoutMs?: number): Promise<Received[]>
  /** Connections open now. */
  connections(): number
  /** Connections made so far, and the most that were open at once. */
  sessions(): { made: number, most: number }
  stop(): Promise<void>
}

export interface SinkOptions {
  /** 0 = a free one. */
  port?: number
  /** Announced after EHLO; null = EHLO is refused, HELO is not. */
  extensions?: string[] | null
  /** Address to listen on; loopback has many. */
  host?: string
  /** With a certificate STARTTLS works; `broken` = it is offered, and then the line speaks no TLS; `refused` = offered,
   *  and then not now. */
  tls?: { key: string, cert: string } | 'broken' | 'refused'
  /** Every mail is the last of its connection. */
  closesAfterMail?: boolean
  /** So many connections at once; one more is greeted with 421. */
  connectionsMax?: number
}

const END = Buffer.from('\r\n.\r\n')
const TOO_MANY = '421 4.7.0 too many connections from you'

/** A scriptable SMTP server on a raw socket: everything a real one may do wrong, it does when told. */
export async function startSink (options: SinkOptions = {}): Promise<Sink> {
  const { port = 0, host = '127.0.0.1', connectionsMax = Infinity } = options
  const script = new SinkScript(options)
  const sockets = new Set<Socket>()
  const sessions = { made: 0, most: 0 }

  const server: Server = createServer(socket => {
    sockets.add(socket)
    sessions.made++
    sessions.most = Math.max(sessions.most, sockets.size)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    new SinkSession(socket, script)
    perform(socket, sockets.size > connectionsMax ? TOO_MANY : script.greeting ?? '220 sink ready')
  })
  server.listen(port, host)
  await once(server, 'listening')
  const bound = (server.address() as { port: number }).port

  return {
    url: `smtp://${host}:${bound}`,
    port: bound,
    received: script.received,
    replies: (address, behaviour, times = 1) => script.add(address, Array<Behaviour>(times).fill(behaviour)),
    greet: act => {
      script.greeting = act
    },
    attempts: address => script.rcpts.get(address) ?? 0,
    copies: () => Map.groupBy(script.received.filter(({ accepted }) => accepted), ({ messageId }) => messageId ?? ''),
    dots: (count, timeoutMs = 10_000) => script.dots(count, timeoutMs),
    connections: () => sockets.size,
    sessions: () => ({ ...sessions }),
    async stop () {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    }
  }
}

/** What the sessions of a sink share: what they are to do, and what came. */
class SinkScript {
  readonly received: Received[] = []
  /** RCPT commands, by address. */
  readonly rcpts = new Map<string, number>()
  readonly extensions: string[] | null
  readonly tls: SinkOptions['tls']
  readonly closesAfterMail: boolean
  greeting: Act | null = null
  private readonly behaviours = new Map<string, Behaviour[]>()
  private onDot = () => {}

  constructor (options: SinkOptions) {
    const { extensions = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'SIZE 26214400'], tls, closesAfterMail } = options
    this.extensions = extensions
    this.tls = tls
    this.closesAfterMail = closesAfterMail ?? false
  }

  add (address: string, behaviours: Behaviour[]): void {
    this.behaviours.set(address, [...this.behaviours.get(address) ?? [], ...behaviours])
  }

  isScripted (address: string): boolean {
    return this.behaviours.has(address)
  }

  next (address: string): Behaviour {
    return this.behaviours.get(address)?.shift() ?? {}
  }

  take (message: Received): void {
    this.received.push(message)
    if (message.dot) this.onDot()
  }

  async dots (count: number, timeoutMs: number): Promise<Received[]> {
    const endMs = Date.now() + timeoutMs
    for (;;) {
      const done = this.received.filter(message => message.dot)
      if (done.length >= count) return done
      if (Date.now() > endMs) throw new Error(`${done.length} of ${count} messages came in ${timeoutMs} ms`)
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, 100)
        this.onDot = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }
}

/** One connection, from its greeting or from the end of its TLS handshake. */
class SinkSession {
  private readonly socket: Socket
  private readonly script: SinkScript
  private readonly secure: boolean
  private readonly peer: string
  private buffer = Buffer.alloc(0)
  private from = ''
  private to: string | null = null
  private commands: string[] = []
  private behaviour: Behaviour = {}
  private inBody = false
  private searchFrom = 0

  constructor (socket: Socket, script: SinkScript, secure = false) {
    this.socket = socket
    this.script = script
    this.secure = secure
    this.peer = socket.remoteAddress ?? ''
    socket.on('data', this.listen)
    socket.on('close', () => {
      if (this.inBody) this.end(this.buffer, false)
    })
  }

  private readonly listen = (chunk: Buffer<ArrayBuffer>): void => {
    this.buffer = this.buffer.length === 0 ? chunk : Buffer.concat([this.buffer, chunk])
    while (this.buffer.length > 0) if (!(this.inBody ? this.data() : this.command())) return
  }

  /** False = the line is not whole yet. */
  private command (): boolean {
    const end = this.buffer.indexOf('\r\n')
    if (end === -1) return false
    const line = this.buffer.subarray(0, end).toString()
    this.buffer = this.buffer.subarray(end + 2)
    this.answer(line)
    return true
  }

  private answer (line: string): void {
    const { socket } = this
    const verb = line.slice(0, 4).toUpperCase()
    if (verb === 'EHLO') return this.hello()
    if (verb === 'HELO') return void socket.write('250 sink\r\n')
    if (verb === 'STAR' && this.script.tls !== undefined) return this.startTls()
    if (verb === 'MAIL') return this.sender(line)
    if (verb === 'RCPT') return this.recipient(line)
    if (verb === 'DATA') return this.begin()
    if (verb === 'QUIT') return void socket.end('221 bye\r\n')
    socket.write(verb === 'RSET' || verb === 'NOOP' ? '250 ok\r\n' : '502 not here\r\n')
  }

  private hello (): void {
    const { extensions, tls } = this.script
    if (extensions === null) return void this.socket.write('502 no EHLO here\r\n')
    const words = ['sink', ...extensions, ...(tls !== undefined && !this.secure ? ['STARTTLS'] : [])]
    this.socket.write(words.map((word, i) => `250${i === words.length - 1 ? ' ' : '-'}${word}\r\n`).join(''))
  }

  private startTls (): void {
    const { socket, script } = this
    const { tls } = script
    if (tls === 'refused') return void socket.write('454 4.7.0 TLS not available now\r\n')
    socket.write('220 go ahead\r\n')
    socket.off('data', this.listen)
    if (tls === 'broken') return void socket.once('data', () => socket.end('this is not TLS\r\n'))
    const secured = new TLSSocket(socket, { isServer: true, ...tls })
    secured.on('error', () => {})
    new SinkSession(secured, script, true)
  }

  private sender (line: string): void {
    const { script } = this
    this.from = pathOf(line)
    this.to = null
    this.commands = [line]
    // Which address it is about is known at RCPT only: a refusal of MAIL is scripted for the sender.
    perform(this.socket, script.isScripted(this.from) ? script.next(this.from).mail ?? '250 ok' : '250 ok')
  }

  private recipient (line: string): void {
    const { rcpts } = this.script
    const address = pathOf(line)
    this.commands.push(line)
    rcpts.set(address, (rcpts.get(address) ?? 0) + 1)
    this.behaviour = this.script.next(address)
    const act = this.behaviour.rcpt ?? '250 ok'
    if (typeof act === 'string' && act.startsWith('2')) this.to = address
    perform(this.socket, act)
  }

  private begin (): void {
    if (this.to === null) return void this.socket.write('503 no recipients\r\n')
    const act = this.behaviour.data ?? '354 go ahead'
    perform(this.socket, act)
    this.inBody = (typeof act === 'object' ? act.reply : act).startsWith('354')
    this.searchFrom = 0
  }

  /** False = the body is not whole yet. */
  private data (): boolean {
    if (this.behaviour.body !== undefined) {
      perform(this.socket, this.behaviour.body)
      this.behaviour = {}
    }
    const end = this.buffer.indexOf(END, this.searchFrom)
    if (end === -1) {
      this.searchFrom = Math.max(0, this.buffer.length - END.length + 1)
      return false
    }
    const message = this.buffer.subarray(0, end + 2)
    this.buffer = this.buffer.subarray(end + END.length)
    const act = this.behaviour.dot ?? '250 2.0.0 queued'
    this.end(message, true, typeof act === 'string' && act.startsWith('2'))
    perform(this.socket, act)
    if (this.script.closesAfterMail) this.socket.end()
    return true
  }

  private end (bytes: Buffer, dot: boolean, accepted = false): void {
    const { from, to, commands } = this
    this.inBody = false
    const raw = Buffer.from(bytes.toString('latin1').replaceAll('\r\n..', '\r\n.'), 'latin1')
    const [messageId, date] = [headerOf(raw, 'message-id'), headerOf(raw, 'date')]
    this.script.take({
      from,
      to: to!,
      peer: this.peer,
      commands,
      raw,
      messageId,
      date,
      dot,
      accepted,
      atMs: Date.now()
    })
  }
}

function perform (socket: Socket, act: Act): void {
  if (act === 'hang') return
  if (act === 'reset') return void socket.resetAndDestroy()
  if (typeof act === 'object' && 'thenReset' in act) {
    socket.write(`${act.reply}\r\n`)
    return void socket.resetAndDestroy()
  }
  if (typeof act === 'object') {
    const reply = () => void (socket.writable && socket.write(`${act.reply}\r\n`))
    return 'after' in act ? void act.after.then(reply) : void setTimeout(reply, act.afterMs)
  }
  socket.write(`${act}\r\n`)
  if (act.startsWith('421')) socket.end()
}

function pathOf (line: string): string {
  return /<([^>]*)>/.exec(line)?.[1] ?? ''
}

function headerOf (raw: Buffer, name: string): string | null {
  const head = raw.subarray(0, 16_384).toString('latin1').split('\r\n\r\n')[0]!
  return new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim() ?? null
}
