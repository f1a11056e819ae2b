import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '#src/base/log.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { COPIES_FILES, makePostgres } from '../support/superuser.ts'
import type { BenchName, SizesOf } from './settings.ts'

/** Takes a line of what a bench found. */
export type Say = (line: string) => void

export interface BenchContext<Name extends BenchName> {
  sizes: SizesOf<Name>
  openServers: OpenServers
  say: Say
}

export interface Bench<Name extends BenchName> {
  /** What it measures, in one line. */
  about: string
  /** Where the figures stand in the record, with these sizes: `speeds.apiOne`. Every figure that is kept stands at or
   *  below one of these. */
  rows(sizes: SizesOf<Name>): readonly string[]
  /** Prints the figures by `say` and resolves to the record of them. */
  run(context: BenchContext<Name>): Promise<Record<string, unknown>>
}

/** The servers of one bench, or of one side of it. */
export interface BenchServers {
  /** Empty where it was not asked for. */
  natsUrl: string
  databaseUrl: string
  /** null = not asked for, or none of our processes: what it uses is not counted. */
  natsPid: number | null
  postgresPid: number | null
  stop(): Promise<void>
}

export type OpenServers = (wish?: { nats?: boolean, postgres?: boolean }) => Promise<BenchServers>

/** Embedded servers in a folder of their own, gone with `stop`. */
export const openEmbeddedServers: OpenServers = async ({ nats = true, postgres = true } = {}) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-bench-'))
  if (postgres) await makePostgres(dataDir, [COPIES_FILES], () => {})
  const servers = await startEmbedded({
    dataDir,
    nats,
    postgres,
    natsBin: process.env.JETPOST_NATS_BIN || null,
    log: createLog('error'),
    say: () => {}
  })
  const pidIn = (...path: string[]): number => Number.parseInt(readFileSync(join(dataDir, ...path), 'utf8'), 10)
  return {
    natsUrl: servers.natsUrl ?? '',
    databaseUrl: servers.databaseUrl ?? '',
    natsPid: nats ? pidIn('nats', 'nats-server.pid') : null,
    postgresPid: postgres ? pidIn('postgres', 'postmaster.pid') : null,
    async stop () {
      await servers.stop()
      rmSync(dataDir, { recursive: true, force: true })
    }
  }
}
