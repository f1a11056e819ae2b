import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { dial, speakOver, type Peer } from './inbound-peer.ts'

/** A client of SMTP submission at its bluntest, TLS begun. */
export async function dialSecurely (port: number, localAddress?: string): Promise<Peer> {
  const plain = localAddress === undefined ? await dial(port) : await dialFrom(port, localAddress)
  await plain.say('EHLO client.example')
  await plain.say('STARTTLS')
  plain.socket.removeAllListeners('data')
  const socket = connectTls({ socket: plain.socket, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const peer = await speakOver(socket, true)
  await peer.say('EHLO client.example')
  return peer
}

/** From another network: any 127.x.y.z is this machine's. */
export async function dialFrom (port: number, localAddress: string): Promise<Peer> {
  const socket: Socket = connect({ port, host: '127.0.0.1', localAddress })
  await once(socket, 'connect')
  return await speakOver(socket)
}

/** Logged in with the key. */
export async function logIn (port: number, key: string, localAddress?: string): Promise<Peer> {
  const peer = await dialSecurely(port, localAddress)
  const reply = await peer.say(`AUTH PLAIN ${Buffer.from(`\0jetpost\0${key}`).toString('base64')}`)
  if (!reply.startsWith('235')) throw new Error(`the login was refused: ${reply}`)
  return peer
}

/** The lines up to the final dot; resolves to its reply, or to the first refusal before it. */
export async function submit (peer: Peer, from: string, to: string[], raw: string | Buffer): Promise<string> {
  for (const line of [`MAIL FROM:<${from}>`, ...to.map(address => `RCPT TO:<${address}>`), 'DATA']) {
    const reply = await peer.say(line)
    if (!/^[23]/.test(reply)) return reply
  }
  peer.socket.write(stuffed(Buffer.from(raw)))
  return await peer.say('.')
}

/** With dots doubled, and a line end behind it. */
export function stuffed (raw: Buffer): Buffer {
  const text = raw.toString('latin1').replaceAll(/^\./gm, '..')
  return Buffer.from(text.endsWith('\r\n') ? text : `${text}\r\n`, 'latin1')
}
