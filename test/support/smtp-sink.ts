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
  const {
    port = 0,
    host = '127.0.0.1',
    extensions = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'SIZE 26214400'],
    tls,
    closesAfterMail = false,
    connectionsMax = Infinity
  } = options
  const received: Received[] = []
  const scripts = new Map<string, Behaviour[]>()
  const rcpts = new Map<string, number>()
  const sockets = new Set<Socket>()
  let greeting: Act | null = null
  let onDot = () => {}
  const sessions = { made: 0, most: 0 }

  const server: Server = createServer(socket => {
    sockets.add(socket)
    sessions.made++
    sessions.most = Math.max(sessions.most, sockets.size)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    serve(socket)
  })
  server.listen(port, host)
  await once(server, 'listening')
  const bound = (server.address() as { port: number }).port

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

  function behaviourOf (address: string): Behaviour {
    return scripts.get(address)?.shift() ?? {}
  }

  function serve (socket: Socket, secure = false): void {
    let buffer = Buffer.alloc(0)
    let from = ''
    let to: string | null = null
    let commands: string[] = []
    let behaviour: Behaviour = {}
    let inBody = false
    let searchFrom = 0

    socket.on('data', listen)
    socket.on('close', () => {
      if (inBody) ended(buffer, false)
    })
    if (!secure) perform(socket, sockets.size > connectionsMax ? TOO_MANY : greeting ?? '220 sink ready')

    function listen (chunk: Buffer<ArrayBuffer>): void {
      buffer = buffer.length === 0 ? chunk : Buffer.concat([buffer, chunk])
      while (buffer.length > 0) if (!(inBody ? data() : command())) return
    }

    function command (): boolean {
      const end = buffer.indexOf('\r\n')
      if (end === -1) return false
      const line = buffer.subarray(0, end).toString()
      buffer = buffer.subarray(end + 2)
      answer(line)
      return true
    }

    function answer (line: string): void {
      const verb = line.slice(0, 4).toUpperCase()
      if (verb === 'EHLO') return hello()
      if (verb === 'HELO') return void socket.write('250 sink\r\n')
      if (verb === 'STAR' && tls !== undefined) return startTls()
      if (verb === 'MAIL') {
        from = pathOf(line)
        to = null
        commands = [line]
        // Which address it is about is known at RCPT only: a refusal of MAIL is scripted for the sender.
        return perform(socket, scripts.has(from) ? behaviourOf(from).mail ?? '250 ok' : '250 ok')
      }
      if (verb === 'RCPT') {
        commands.push(line)
        return recipient(pathOf(line))
      }
      if (verb === 'DATA') return begin()
      if (verb === 'QUIT') return void socket.end('221 bye\r\n')
      socket.write(verb === 'RSET' || verb === 'NOOP' ? '250 ok\r\n' : '502 not here\r\n')
    }

    function hello (): void {
      if (extensions === null) return void socket.write('502 no EHLO here\r\n')
      const words = ['sink', ...extensions, ...(tls !== undefined && !secure ? ['STARTTLS'] : [])]
      socket.write(words.map((word, i) => `250${i === words.length - 1 ? ' ' : '-'}${word}\r\n`).join(''))
    }

    function startTls (): void {
      if (tls === 'refused') return void socket.write('454 4.7.0 TLS not available now\r\n')
      socket.write('220 go ahead\r\n')
      socket.off('data', listen)
      if (tls === 'broken') return void socket.once('data', () => socket.end('this is not TLS\r\n'))
      const secured = new TLSSocket(socket, { isServer: true, ...tls })
      secured.on('error', () => {})
      serve(secured, true)
    }

    function recipient (address: string): void {
      rcpts.set(address, (rcpts.get(address) ?? 0) + 1)
      behaviour = behaviourOf(address)
      const act = behaviour.rcpt ?? '250 ok'
      if (typeof act === 'string' && act.startsWith('2')) to = address
      perform(socket, act)
    }

    function begin (): void {
      if (to === null) return void socket.write('503 no recipients\r\n')
      const act = behaviour.data ?? '354 go ahead'
      perform(socket, act)
      inBody = (typeof act === 'object' ? act.reply : act).startsWith('354')
      searchFrom = 0
    }

    function data (): boolean {
      if (behaviour.body !== undefined) {
        perform(socket, behaviour.body)
        behaviour = {}
      }
      const end = buffer.indexOf(END, searchFrom)
      if (end === -1) {
        searchFrom = Math.max(0, buffer.length - END.length + 1)
        return false
      }
      const message = buffer.subarray(0, end + 2)
      buffer = buffer.subarray(end + END.length)
      const act = behaviour.dot ?? '250 2.0.0 queued'
      ended(message, true, typeof act === 'string' && act.startsWith('2'))
      perform(socket, act)
      if (closesAfterMail) socket.end()
      return true
    }

    function ended (bytes: Buffer, dot: boolean, accepted = false): void {
      inBody = false
      const raw = Buffer.from(bytes.toString('latin1').replaceAll('\r\n..', '\r\n.'), 'latin1')
      received.push({
        from,
        to: to!,
        commands,
        raw,
        messageId: headerOf(raw, 'message-id'),
        date: headerOf(raw, 'date'),
        dot,
        accepted,
        atMs: Date.now()
      })
      if (dot) onDot()
    }
  }

  async function dots (count: number, timeoutMs = 10_000): Promise<Received[]> {
    const endMs = Date.now() + timeoutMs
    for (;;) {
      const done = received.filter(message => message.dot)
      if (done.length >= count) return done
      if (Date.now() > endMs) throw new Error(`${done.length} of ${count} messages came in ${timeoutMs} ms`)
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, 100)
        onDot = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }

  return {
    url: `smtp://${host}:${bound}`,
    port: bound,
    received,
    replies: (address, behaviour, times = 1) =>
      void scripts.set(address, [...scripts.get(address) ?? [], ...Array<Behaviour>(times).fill(behaviour)]),
    greet: act => {
      greeting = act
    },
    attempts: address => rcpts.get(address) ?? 0,
    copies: () => Map.groupBy(received.filter(message => message.accepted), message => message.messageId ?? ''),
    dots,
    connections: () => sockets.size,
    sessions: () => ({ ...sessions }),
    async stop () {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    }
  }
}

function pathOf (line: string): string {
  return /<([^>]*)>/.exec(line)?.[1] ?? ''
}

function headerOf (raw: Buffer, name: string): string | null {
  const head = raw.subarray(0, 16_384).toString('latin1').split('\r\n\r\n')[0]!
  return new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim() ?? null
}
