import type { Projection } from '#projections/define.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { createFactLog } from '#src/actions/fact-log.ts'
import { noteOperation } from '#src/actions/operation.ts'
import { systemClock } from '#src/base/clock.ts'
import type { Config } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import { readServers } from '#src/embedded/kept.ts'
import { openRebuilder, type Rebuilder, type RebuildProgress, type Servers } from '#src/workers/projector/rebuild.ts'
import { leftText, progressText } from '#src/workers/projector/progress.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { drawOver } from './gauge.ts'
import { openBus, operatorActor } from './open-services.ts'
import { readSettings } from './settings.ts'
import { stopped } from './since.ts'
import { withPostgres } from './webhooks/options.ts'

export interface RebuildRequest {
  json: boolean
  why: string
  /** null = always. */
  isNeeded: ((pool: Pool, projection: Projection) => Promise<boolean>) | null
}

/** Rebuilds projections one after the other, with a progress bar. Throws a Complaint when one fails; those before it
 *  are done. */
export async function rebuildProjections (wanted: readonly Projection[], options: RebuildRequest): Promise<void> {
  const signal = stopped()
  await withRebuilder('error', async ({ bus, builder, pool }) => {
    if (options.isNeeded === null) await note(bus, wanted)
    for (const projection of wanted) await rebuildProjection(projection, { builder, pool, signal, ...options })
  }).catch(error => {
    throw signal.aborted
      ? new Complaint('Interrupted: what is done stays, and the same command continues from there.')
      : error
  })
}

/** An operator wants it: the log says who. */
async function note (bus: Bus, wanted: readonly Projection[]): Promise<void> {
  const asker = { account: FIRST_ACCOUNT, correlation: newId('cli', Date.now()), actor: operatorActor() }
  const factLog = createFactLog(bus, systemClock)
  for (const { name } of wanted) await noteOperation(factLog, asker, { operation: 'rebuild.requested', subject: name })
}

async function rebuildProjection (
  projection: Projection,
  { builder, pool, signal, json, why, isNeeded }: RebuildRequest & {
    builder: Rebuilder
    pool: Pool
    signal: AbortSignal
  }
): Promise<void> {
  const { name, version } = projection
  const isThere = isNeeded !== null && !await isNeeded(pool, projection)
  const bar = openBar(name)
  const made = isThere
    ? null
    : await builder.rebuild(projection, {
      why,
      signal,
      onProgress: bar.show,
      ...(isNeeded === null ? {} : { isNeeded: () => isNeeded(pool, projection) })
    })
  bar.end()
  if (made === null) {
    return console.log(
      json ? JSON.stringify({ projection: name, version, made: false }) : `${name} ${version}: already built`
    )
  }
  const { facts } = made
  const [seconds, perS] = [Math.round(made.seconds * 100) / 100, Math.round(facts / Math.max(made.seconds, 0.001))]
  console.log(
    json
      ? JSON.stringify({ projection: name, version, made: true, facts, seconds, facts_per_second: perS })
      : `${name} ${version}: built from ${number(facts)} facts in ${seconds} s, ${number(perS)} a second`
  )
}

/** The servers of the running service, and what rebuilds its projections. */
export interface ProjectionServices {
  bus: Bus
  pool: Pool
  builder: Rebuilder
}

/** With the servers of the running service, or those of NATS_URL and DATABASE_URL. */
export async function withRebuilder<T> (
  logLevel: string,
  use: (services: ProjectionServices) => Promise<T>
): Promise<T> {
  const { config } = await readSettings('NATS_URL', 'DATABASE_URL')
  const log = createLog(logLevel)
  const bus = await openBus(config, log)
  try {
    return await withPostgres(async pool =>
      await use({ bus, pool, builder: openRebuilder({ bus, pool, log, ...serversOf(config) }) })
    )
  } finally {
    await bus.close()
  }
}

/** Of servers that have answered already. */
function serversOf (config: Config): Servers {
  const embedded = config.natsUrl !== null && config.databaseUrl !== null ? null : readServers(config.dataDir)
  return {
    natsUrl: config.natsUrl ?? embedded!.nats!,
    natsCreds: config.natsCreds,
    databaseUrl: config.databaseUrl ?? embedded!.postgres!
  }
}

const WIDTH = 30
/** Between two lines where there is no terminal to draw a bar on. */
const LINE_MS = 5000

/** The progress, on stderr: a bar on a terminal, elsewhere a line every five seconds. */
function openBar (name: string): { show(progress: RebuildProgress): void, end(): void } {
  let writtenMs = performance.now()
  return {
    show (progress) {
      if (process.stderr.isTTY) return drawOver(barText(name, progress))
      if (performance.now() - writtenMs < LINE_MS) return
      writtenMs = performance.now()
      process.stderr.write(`${name}: ${lineText(progress)}\n`)
    },
    end: () => drawOver('')
  }
}

/** `emails ██████████░░░░░ 43 %  1,290,000 of 3,000,000 facts  41,200/s  42 s left` */
function barText (name: string, progress: RebuildProgress): string {
  const { stage, done, total, leftS } = progress
  if (stage !== 'facts') return `${name} ${progressText(progress)}`
  const share = total === 0 ? 1 : done / total
  const full = Math.round(share * WIDTH)
  const bar = `${name} ${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${Math.floor(share * 100)} %`
  return [bar, countText(progress), ...(leftS === null ? [] : [`${leftText(leftS)} left`])].join('  ')
}

function lineText (progress: RebuildProgress): string {
  return progress.stage === 'facts' ? `${countText(progress)}, ${progressText(progress)}` : progressText(progress)
}

function countText ({ done, total, perS }: RebuildProgress): string {
  return `${number(done)} of ${number(total)} facts${perS === 0 ? '' : `  ${number(Math.round(perS))}/s`}`
}

const number = (count: number): string => count.toLocaleString('en')
