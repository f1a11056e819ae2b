import {
  connect,
  credsAuthenticator,
  Events,
  type ConnectionOptions,
  type JetStreamClient,
  type NatsConnection
} from 'nats'
import { readFile } from 'node:fs/promises'
import { deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'

/** One connection to NATS, and since when it has stood without a break. */
export interface Bus {
  nc: NatsConnection
  js: JetStreamClient
  /** Unix ms since when the connection is up; null while it is down. */
  upSinceMs(): number | null
  /** Tells once when the connection breaks, at once when it is down; gives what takes that back. */
  onBreak(tell: () => void): () => void
  /** Resolves when the connection is up, or when `timeoutMs` are over. */
  whenUp(timeoutMs: number): Promise<void>
  close(): Promise<void>
}

export interface BusOptions {
  /** `nats://[user:password@]host:port`, several parted by commas. */
  url: string
  /** Path of a .creds file, or null. */
  creds: string | null
  /** Shown in the server's connection list. */
  name: string
  log: Log
}

/** Connects and keeps connecting for ever; rejects when the first connection takes over `timeoutMs`. */
export async function connectBus (options: BusOptions, timeoutMs = 30_000): Promise<Bus> {
  const connecting = connect(await connectionOptions(options))
  const nc = await deadline(connecting, timeoutMs, `NATS did not answer within ${timeoutMs / 1000} s`).catch(error => {
    connecting.then(late => late.close(), () => {})
    throw error
  })
  return { nc, js: nc.jetstream({ timeout: 5000 }), ...followLine(nc, options.log), close: () => closeBus(nc) }
}

/** What those need to know who wait for an answer. */
function followLine (nc: NatsConnection, log: Log): Pick<Bus, 'upSinceMs' | 'onBreak' | 'whenUp'> {
  let upSinceMs: number | null = Date.now()
  /** Told at the next turn: while the connection is up it will break, while it is down it will be up. */
  const waiting = new Set<() => void>()
  void watch(nc, log, value => {
    upSinceMs = value
    const told = [...waiting]
    waiting.clear()
    for (const listener of told) listener()
  })
  return {
    upSinceMs: () => upSinceMs,
    onBreak (listener) {
      if (upSinceMs === null) listener()
      else waiting.add(listener)
      return () => void waiting.delete(listener)
    },
    async whenUp (timeoutMs) {
      if (upSinceMs !== null) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, timeoutMs)
      waiting.add(resolve)
      await promise
      waiting.delete(resolve)
      clearTimeout(timer)
    }
  }
}

async function connectionOptions (options: BusOptions): Promise<ConnectionOptions> {
  const urls = options.url.split(',').map(url => new URL(url.trim()))
  const { username, password, protocol } = urls[0]!
  const isTls = protocol === 'tls:'
  return {
    servers: urls.map(url => url.host),
    ...(username === '' ? {} : { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
    ...(options.creds === null ? {} : { authenticator: credsAuthenticator(await readFile(options.creds)) }),
    ...(isTls ? { tls: {} } : {}),
    name: options.name,
    noEcho: true,
    // Else every request makes an Error for its stack, a twelfth of the accepting process's time.
    noAsyncTraces: true,
    // Names are the system's to look up: the client's own way asks name servers only, reads no hosts file, and waits
    // half a minute for a mute one. With TLS it must be the client's: that is where it takes the name in the
    // certificate from.
    resolve: isTls,
    waitOnFirstConnect: true,
    maxReconnectAttempts: -1,
    // A server that is just being reconfigured may refuse us twice; giving up for good would leave a process that lives
    // and does nothing.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: 100,
    reconnectJitter: 100,
    // Two missed pings of 5 s: a server that hangs is left within 15 s.
    pingInterval: 5000,
    maxPingOut: 2
  }
}

async function watch (nc: NatsConnection, log: Log, set: (since: number | null) => void): Promise<void> {
  for await (const status of nc.status()) {
    if (status.type === Events.Disconnect) {
      set(null)
      log.warn('nats disconnected')
    } else if (status.type === Events.Reconnect) {
      set(Date.now())
      log.info('nats connected again')
    } else if (status.type === Events.Error) {
      log.warn({ error: String(status.data) }, 'nats reports an error')
    }
  }
}

/** Flushes what is on its way for at most 2 s, then closes. */
async function closeBus (nc: NatsConnection): Promise<void> {
  if (nc.isClosed()) return
  await deadline(nc.flush(), 2000, 'flush took too long').catch(() => {})
  await nc.close()
}
