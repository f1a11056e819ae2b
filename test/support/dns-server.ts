import {
  decode,
  encode,
  RECURSION_AVAILABLE,
  RECURSION_DESIRED,
  streamDecode,
  streamEncode,
  TRUNCATED_RESPONSE,
  type Answer,
  type Packet
} from 'dns-packet'
import { createSocket, type Socket as Udp } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import type { Ending } from './servers.ts'

/** What a name answers in place of records. */
export type Failure = 'NXDOMAIN' | 'SERVFAIL' | 'REFUSED' | 'silence'

/** A TXT record: one string, cut into parts of 255 as servers do, or its parts as they are. */
export type Txt = string | string[]

export interface DnsServer {
  /** `127.0.0.1:port`, UDP and TCP. */
  address: string
  /** Questions in the order they came. */
  asked: Array<{ name: string, type: string, over: 'udp' | 'tcp' }>
  /** From now on the name has these TXT records; none = the name is there, without them. */
  txt(name: string, ...records: Txt[]): void
  cname(name: string, target: string): void
  /** MX hosts as [preference, name]; '' is the null MX. None = the name is there, without them. */
  mx(name: string, ...hosts: Array<[number, string]>): void
  /** Its addresses, IPv4 and IPv6 alike. */
  host(name: string, addresses: string[], ttlS?: number): void
  /** Names by the name of their address, such as `1.2.0.192.in-addr.arpa`. */
  ptr(name: string, ...names: string[]): void
  fails(name: string, failure: Failure): void
  /** The name is gone: NXDOMAIN, as for every name never heard of. */
  forget(name: string): void
}

const RCODES: Record<Exclude<Failure, 'silence'>, number> = { NXDOMAIN: 3, SERVFAIL: 2, REFUSED: 5 }
/** What UDP carries for a client that announces no more. Source: RFC 1035 4.2.1. */
const UDP_BYTES_MAX = 512

/** A DNS server on loopback that knows what the test tells it. What UDP has no room for is marked as truncated there,
 *  and whole over TCP. */
export async function openDnsServer (t: Ending): Promise<DnsServer> {
  const zone = new Map<string, Answer[] | Failure>()
  const asked: DnsServer['asked'] = []

  function replyTo (query: Packet, over: 'udp' | 'tcp'): Packet | null {
    const { name, type } = query.questions![0]!
    asked.push({ name, type, over })
    const held = zone.get(name.toLowerCase()) ?? 'NXDOMAIN'
    if (held === 'silence') return null
    const rcode = typeof held === 'string' ? RCODES[held] : 0
    const answers = typeof held === 'string' ? [] : followed(held, type!)
    return {
      type: 'response',
      id: query.id,
      flags: RECURSION_DESIRED | RECURSION_AVAILABLE | rcode,
      questions: query.questions,
      answers
    }
  }

  /** As a resolver answers: an alias together with what it leads to. */
  function followed (held: Answer[], type: string): Answer[] {
    const alias = held.find(answer => answer.type === 'CNAME')
    if (alias === undefined || type === 'CNAME') return held.filter(answer => answer.type === type)
    const target = zone.get(String((alias as { data: unknown }).data).toLowerCase())
    return [alias, ...(Array.isArray(target) ? followed(target, type) : [])]
  }

  /** Puts records in the place of the name's others of their types. */
  function put (name: string, types: string[], records: Answer[]): void {
    const held = zone.get(name)
    const others = Array.isArray(held)
      ? held.filter(answer => !types.includes(answer.type) && answer.type !== 'CNAME')
      : []
    zone.set(name, [...others, ...records])
  }

  const { udp, tcp, port } = await listen()
  udp.on('message', (message, { port, address }) => {
    const reply = replyTo(decode(message), 'udp')
    if (reply !== null) udp.send(withinUdp(reply), port, address)
  })
  const lines = new Set<Socket>()
  tcp.on('connection', line => {
    lines.add(line.on('close', () => lines.delete(line)).on('error', () => {}))
    let bytes = Buffer.alloc(0)
    line.on('data', chunk => {
      bytes = Buffer.concat([bytes, chunk])
      while (bytes.length >= 2 && bytes.length >= 2 + bytes.readUInt16BE()) {
        const reply = replyTo(streamDecode(bytes), 'tcp')
        bytes = bytes.subarray(2 + bytes.readUInt16BE())
        if (reply !== null) line.write(streamEncode(reply))
      }
    })
  })
  t.teardown(async () => {
    for (const line of lines) line.destroy()
    await Promise.all([new Promise<void>(resolve => udp.close(resolve)), new Promise(resolve => tcp.close(resolve))])
  })
  return {
    address: `127.0.0.1:${port}`,
    asked,
    txt: (name, ...records) =>
      put(name, ['TXT'], records.map(record => ({ type: 'TXT', name, ttl: 300, data: partsOf(record) }))),
    mx: (name, ...hosts) =>
      put(
        name,
        ['MX'],
        hosts.map(([preference, exchange]) => ({
          type: 'MX',
          name,
          ttl: 300,
          data: { preference, exchange: exchange || '.' }
        }))
      ),
    host: (name, addresses, ttl = 300) =>
      put(name, ['A', 'AAAA'], addresses.map(data => ({ type: data.includes(':') ? 'AAAA' : 'A', name, ttl, data }))),
    cname: (name, target) => void zone.set(name, [{ type: 'CNAME', name, ttl: 300, data: target }]),
    ptr: (name, ...names) => put(name, ['PTR'], names.map(data => ({ type: 'PTR', name, ttl: 300, data }))),
    fails: (name, failure) => void zone.set(name, failure),
    forget: name => void zone.delete(name)
  }
}

/** TCP and UDP on one port: it is free for both when the second can have it too. */
async function listen (): Promise<{ udp: Udp, tcp: Server, port: number }> {
  for (;;) {
    const tcp = createServer().listen(0, '127.0.0.1')
    await once(tcp, 'listening')
    const { port } = tcp.address() as { port: number }
    const udp = createSocket('udp4').bind(port, '127.0.0.1')
    const bound = await once(udp, 'listening').then(() => true, () => false)
    if (bound) return { udp, tcp, port }
    await new Promise(resolve => tcp.close(resolve))
  }
}

function withinUdp (reply: Packet): Buffer {
  const whole = encode(reply)
  return whole.length <= UDP_BYTES_MAX
    ? whole
    : encode({ ...reply, flags: reply.flags! | TRUNCATED_RESPONSE, answers: [] })
}

function partsOf (record: Txt): string[] {
  return typeof record === 'string' ? record.match(/.{1,255}/gs) ?? [''] : record
}
