import { realpathSync } from 'node:fs'
import { Complaint } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { forgetServers, openKept, writeServers } from './kept.ts'
import type { Kept } from './kept.ts'
import { lockDataDir } from './lock.ts'
import { findNatsServer } from './nats-binary.ts'
import { natsPlan, natsUrl } from './nats-server.ts'
import { postgresAccount } from './postgres-account.ts'
import { openPostgresFolder, postgresFolder } from './postgres-folder.ts'
import { findPostgres } from './postgres-package.ts'
import { postgresPlan, postgresUrl, refuseSuperuser } from './postgres-server.ts'
import { supervise } from './supervise.ts'
import type { Supervised } from './supervise.ts'

export interface EmbeddedOptions {
  /** JETPOST_DATA_DIR; made when missing. */
  dataDir: string
  /** Which of the two to run. The folder is locked in either case. */
  nats: boolean
  postgres: boolean
  /** JETPOST_NATS_BIN, JETPOST_NATS_PORT, JETPOST_POSTGRES_PORT; null, or left out = found, free. */
  natsBin?: string | null
  natsPort?: number | null
  postgresPort?: number | null
  log: Log
  /** Takes a line of progress in plain words. */
  say: (line: string) => void
  /** Aborted = stop starting: what was started is stopped and the start is rejected. */
  signal?: AbortSignal
}

export interface Embedded {
  /** With random credentials, on 127.0.0.1; null = not run here. The same through every restart of the server. */
  natsUrl: string | null
  databaseUrl: string | null
  /** Ends both servers (10 s, then by force) and gives the folder back. May be called again. */
  stop(): Promise<void>
}

/** Takes the data folder and starts the embedded servers in it, both at once; resolves when they answer, and keeps them
 *  alive until `stop`. They end with this process, even by kill -9. Throws a Complaint of one sentence when it cannot,
 *  and leaves nothing running. */
export async function startEmbedded (options: EmbeddedOptions): Promise<Embedded> {
  const release = lockDataDir(options.dataDir)
  try {
    return await startLocked({ ...options, dataDir: realpathSync(options.dataDir) }, release)
  } catch (error) {
    release()
    throw error
  }
}

async function startLocked (options: EmbeddedOptions, release: () => void): Promise<Embedded> {
  const kept = openKept(options.dataDir)
  const servers = await startBoth(options, kept)
  const urls = { nats: options.nats ? natsUrl(kept) : null, postgres: options.postgres ? postgresUrl(kept) : null }
  writeServers(options.dataDir, urls)
  let stopped: Promise<void> | null = null
  return {
    natsUrl: urls.nats,
    databaseUrl: urls.postgres,
    stop: () => stopped ??= stopAll(servers, options.dataDir, release)
  }
}

async function stopAll (servers: Supervised[], dataDir: string, release: () => void): Promise<void> {
  forgetServers(dataDir)
  await Promise.all(servers.map(server => server.stop()))
  release()
}

/** Both or none: when one does not start, the other is stopped. */
async function startBoth (options: EmbeddedOptions, kept: Kept): Promise<Supervised[]> {
  const failed = new AbortController()
  const signal = options.signal === undefined ? failed.signal : AbortSignal.any([options.signal, failed.signal])
  const starting = [
    ...options.nats ? [startNats(options, kept, signal)] : [],
    ...options.postgres ? [startPostgres(options, kept, signal)] : []
  ]
  let reason: unknown = null
  for (const start of starting) {
    start.catch(error => {
      reason ??= error
      failed.abort()
    })
  }
  const results = await Promise.allSettled(starting)
  const servers = results.flatMap(result => result.status === 'fulfilled' ? [result.value] : [])
  if (!signal.aborted) return servers
  await Promise.all(servers.map(server => server.stop()))
  throw reason ?? new Complaint('Jetpost was stopped while it was starting.')
}

async function startNats (options: EmbeddedOptions, kept: Kept, signal: AbortSignal): Promise<Supervised> {
  const { dataDir, natsBin = null, natsPort = null, log, say } = options
  const file = await findNatsServer({ natsBin, dataDir, say, signal })
  const startMs = performance.now()
  const server = await supervise(natsPlan({ file, dataDir, port: natsPort, kept }), { log, say, signal })
  say(`nats-server is ready on 127.0.0.1:${kept.nats.port} (${Math.round(performance.now() - startMs)} ms)`)
  return server
}

async function startPostgres (options: EmbeddedOptions, kept: Kept, signal: AbortSignal): Promise<Supervised> {
  const { dataDir, postgresPort = null, log, say } = options
  const startMs = performance.now()
  const programs = findPostgres(dataDir)
  const account = await postgresAccount(postgresFolder(dataDir), programs)
  await openPostgresFolder({ dataDir, password: kept.postgres.password, programs, account, say, signal })
  const server = await supervise(postgresPlan({ dataDir, port: postgresPort, kept, programs, account }), {
    log,
    say,
    signal
  })
  await refuseSuperuser(kept).catch(async error => {
    await server.stop()
    throw error
  })
  say(`PostgreSQL is ready on 127.0.0.1:${kept.postgres.port} (${Math.round(performance.now() - startMs)} ms)`)
  return server
}
