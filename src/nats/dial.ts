import {
  connect,
  credsAuthenticator,
  nkeyAuthenticator,
  type Authenticator,
  type NatsConnection,
  type TlsOptions
} from 'nats'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createConnection, isIP, isIPv6 } from 'node:net'
import { checkServerIdentity, type ConnectionOptions } from 'node:tls'
import { asError, deadline } from '#src/base/errors.ts'

export interface DialOptions {
  /** `nats://[user:password@]host:port` or `tls://…`, several parted by commas. */
  url: string
  /** Path of a .creds file or of an nkey's seed, or null. */
  creds: string | null
  /** Shown in the server's connection list. */
  name: string
}

/** Where a server listens. */
export interface Server {
  /** `host:port`. */
  name: string
  host: string
  port: number
  /** What its certificate names. */
  certified: string
}

const PORT = 4222
const LOOKUP_MS = 5000
const SPEAK_MS = 5000
const CONNECT_MS = 5000

/** The first server that speaks. All are dialed at once: those that are configured, and those that one of them has
 *  told of (`host:port`); `avoid` only when none of the others speaks. Deadline 15 s. Throws the first error that was
 *  met. */
export async function findServer (
  options: DialOptions,
  told: readonly string[],
  avoid: string | null,
  signal: AbortSignal
): Promise<Server> {
  const servers = await resolveAll(urlsOf(options.url), told)
  const others = servers.filter(({ name }) => name !== avoid)
  return await firstToSpeak(others, signal).catch(error => {
    if (others.length === servers.length) throw error
    return firstToSpeak(servers, signal)
  })
}

export function urlsOf (url: string): URL[] {
  return url.split(',').map(url => new URL(url.trim()))
}

/** Each address of a name is a server: behind one name of a cluster stand all of its servers. */
async function resolveAll (urls: readonly URL[], told: readonly string[]): Promise<Server[]> {
  const certified = bare(urls[0]!.hostname)
  const named = [
    ...urls.map(url => ({ url, certified: bare(url.hostname) })),
    ...told.map(server => ({ url: new URL(`nats://${server}`), certified }))
  ]
  const found = await Promise.allSettled(named.map(async ({ url, certified }) => {
    const host = bare(url.hostname)
    // The system looks names up, as it does for everybody: the client's own way asks name servers only, reads no hosts
    // file, and waits half a minute for a mute one.
    const addresses = await deadline(lookup(host, { all: true }), LOOKUP_MS, `${host} was not found in time`)
    return addresses.map(({ address }) => serverAt(address, Number(url.port || PORT), certified))
  }))
  const servers = found.flatMap(outcome => (outcome.status === 'fulfilled' ? outcome.value : []))
  const failed = found.find(outcome => outcome.status === 'rejected')
  if (servers.length === 0) throw asError(failed?.reason)
  return [...new Map(servers.map(server => [server.name, server])).values()]
}

function serverAt (host: string, port: number, certified: string): Server {
  return { name: `${isIPv6(host) ? `[${host}]` : host}:${port}`, host, port, certified }
}

function bare (hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '')
}

async function firstToSpeak (servers: readonly Server[], signal: AbortSignal): Promise<Server> {
  const over = new AbortController()
  const until = AbortSignal.any([signal, over.signal, AbortSignal.timeout(SPEAK_MS)])
  try {
    return await Promise.any(servers.map(server => heard(server, until)))
  } catch (error) {
    throw asError((error as AggregateError).errors[0] ?? new Error('there is no other server'))
  } finally {
    over.abort()
  }
}

/** Resolves when a server has said something. The system accepts connections for one that hangs, and the client keeps
 *  the socket of a dial that came to nothing; the server closes that when it wakes, which the client takes for the loss
 *  of the connection it has by then. So only those are connected to that speak. */
async function heard (server: Server, signal: AbortSignal): Promise<Server> {
  const closed = new AbortController()
  const socket = createConnection(server.port, server.host)
  socket.on('error', () => {}).once('close', () => closed.abort())
  try {
    await once(socket, 'data', { signal: AbortSignal.any([signal, closed.signal]) })
    return server
  } finally {
    socket.destroy()
  }
}

/** Connects to one server. Deadline 5 s. */
export async function connectTo (server: Server, { url, creds, name }: DialOptions): Promise<NatsConnection> {
  const { username, password, protocol } = urlsOf(url)[0]!
  return await connect({
    servers: server.name,
    ...(username === '' ? {} : { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
    ...(creds === null ? {} : { authenticator: await authenticatorOf(creds) }),
    ...(protocol === 'tls:' ? { tls: tlsOf(server) } : {}),
    name,
    noEcho: true,
    // Else every request makes an Error for its stack, a twelfth of the accepting process's time.
    noAsyncTraces: true,
    resolve: false,
    // A connection that breaks or falls silent is thrown away whole: `Line` finds another.
    reconnect: false,
    timeout: CONNECT_MS,
    pingInterval: 3_600_000
  })
}

/** A seed of a user on a line of its own, as `nk` writes it; in a .creds file it stands beside a JWT. */
const SEED = /^SU[A-Z2-7]{56}$/m

async function authenticatorOf (path: string): Promise<Authenticator> {
  const bytes = await readFile(path)
  const text = bytes.toString()
  const seed = text.includes('JWT') ? undefined : SEED.exec(text)?.[0]
  return seed === undefined ? credsAuthenticator(bytes) : nkeyAuthenticator(Buffer.from(seed))
}

/** The client hands on to `node:tls` what its own type does not name. Left alone, that compares the certificate of an
 *  address with `localhost`. */
function tlsOf ({ certified }: Server): TlsOptions {
  const options: ConnectionOptions = {
    ...(isIP(certified) === 0 ? { servername: certified } : {}),
    checkServerIdentity: (_name, certificate) => checkServerIdentity(certified, certificate)
  }
  return options as TlsOptions
}
