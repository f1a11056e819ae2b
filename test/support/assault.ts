import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'

/** What an attacker is given; he comes from addresses of his own. */
export interface AssaultPlan {
  url: string
  /** Of an account that may send, and of one that may read suppressions alone. */
  sender: string
  reader: string
  durationMs: number
  /** How much of each there is at once, or in all. */
  bigBodies: number
  halfOpen: number
  slowBodies: number
  bigMails: number
  hostileBatches: number
}

/** Answers by attack and status; 0 = none. */
export type AssaultReport = Record<string, Record<number, number>>

const MB = 1024 * 1024
const FROM = 'attack@sandbox.jetpost.test'

/** Attacks in five ways at once until the time is over. */
class Assault {
  readonly report: AssaultReport = {}
  private readonly plan: AssaultPlan
  private readonly endMs: number

  constructor (plan: AssaultPlan) {
    this.plan = plan
    this.endMs = performance.now() + plan.durationMs
  }

  async run (): Promise<void> {
    const { bigBodies, halfOpen, slowBodies, bigMails, hostileBatches, sender, reader } = this.plan
    const values = Buffer.from(`[${'{},'.repeat(Math.floor(19.8 * MB / 3))}{}]`)
    const mails = { left: bigMails }
    const batches = { left: hostileBatches }
    await Promise.all([
      ...many(bigBodies, i => this.post('big bodies', i % 2 === 0 ? reader : sender, '/api/emails', () => values)),
      ...many(halfOpen, i => this.hold('half-open', `127.0.0.${2 + i % 4}`, 'GARBAGE\r\n\r\n')),
      ...many(slowBodies, i => this.hold('slow bodies', `127.0.0.${6 + i % 4}`, this.slowHead(), '{')),
      ...many(4, () => this.post('big mails', sender, '/api/emails', () => taken(mails) ? bigMail() : null)),
      ...many(2, () => this.post('hostile', sender, '/api/emails/batch', () => taken(batches) ? hostileBatch() : null))
    ])
  }

  private goesOn (): boolean {
    return performance.now() < this.endMs
  }

  private count (what: string, status: number): void {
    const counts = this.report[what] ??= {}
    counts[status] = (counts[status] ?? 0) + 1
  }

  private slowHead (): string {
    const { host } = new URL(this.plan.url)
    return `POST /api/emails HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${this.plan.sender}\r\n` +
      'Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n'
  }

  /** One request after the other; `bodyOf` gives null when there are no more. */
  private async post (what: string, key: string, path: string, bodyOf: () => Buffer | null): Promise<void> {
    const pool = new Pool(this.plan.url, { connections: 1, connect: { localAddress: '127.0.0.10' } })
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    for (let body = bodyOf(); body !== null && this.goesOn(); body = bodyOf()) {
      const status = await pool.request({ method: 'POST', path, headers, body }).then(async answer => {
        await answer.body.dump()
        return answer.statusCode
      }, () => 0)
      this.count(what, status)
      if (status !== 202) await sleep(50)
    }
    await pool.destroy()
  }

  /** Holds a connection, saying a little each second; when it is closed, takes another. */
  private async hold (what: string, localAddress: string, head: string, more = ''): Promise<void> {
    const { hostname, port } = new URL(this.plan.url)
    for (; this.goesOn(); await sleep(1000)) {
      const socket = connect({ host: hostname, port: Number(port), localAddress, allowHalfOpen: true })
      socket.on('error', () => {}).resume().write(head)
      const closed = new Promise<void>(resolve => {
        socket.once('close', () => resolve(this.count(what, 0)))
      })
      await Promise.race([closed, this.keepSaying(socket, more)])
      socket.destroy()
    }
  }

  private async keepSaying (socket: Socket, more: string): Promise<void> {
    for (; this.goesOn(); await sleep(1000)) if (more !== '' && socket.writable) socket.write(more)
  }
}

function many (count: number, start: (i: number) => Promise<void>): Array<Promise<void>> {
  return Array.from({ length: count }, (_, i) => start(i))
}

function taken (stock: { left: number }): boolean {
  return stock.left-- > 0
}

let made = 0
const mailTo = (more: object) => ({ from: FROM, to: `victim${made++}@attack.example`, subject: 'attack', ...more })

function bigMail (): Buffer {
  const content = Buffer.alloc(10 * MB, made).toString('base64')
  return Buffer.from(JSON.stringify(mailTo({ text: 'x', attachments: [{ filename: 'a.bin', content }] })))
}

function hostileBatch (): Buffer {
  const html = '<svg></p>'.repeat(18_000)
  return Buffer.from(JSON.stringify({ emails: Array.from({ length: 100 }, () => mailTo({ html })) }))
}

const assault = new Assault(JSON.parse(process.argv[2]!) as AssaultPlan)
await assault.run()
process.stdout.write(JSON.stringify(assault.report))
