import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '#src/base/log.ts'
import { startEmbedded, type Embedded } from '#src/embedded/start.ts'
import type { Ending } from './servers.ts'

/** A PostgreSQL that stops and starts as a test likes. */
export interface OwnPostgres {
  url: string
  start(): Promise<void>
  stop(): Promise<void>
}

/** Ended with the test: that of a tree would be started again by it. */
export async function openOwnPostgres (t: Ending): Promise<OwnPostgres> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-postgres-'))
  const open = () => startEmbedded({ dataDir, nats: false, postgres: true, log: createLog('silent'), say: () => {} })
  let running: Embedded = await open()
  t.teardown(async () => {
    await running.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  return {
    url: running.databaseUrl!,
    stop: () => running.stop(),
    start: async () => {
      running = await open()
    }
  }
}
