import type { Projection } from '#projections/define.ts'
import { readConfig, type Config } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { readServers } from '#src/embedded/kept.ts'
import { openRebuilder, type Rebuilder, type RebuildProgress, type Servers } from '#src/workers/projector/rebuild.ts'
import { leftText, progressText } from '#src/workers/projector/progress.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { drawOver } from './gauge.ts'
import { openBus } from './open-services.ts'
import { stopped } from './since.ts'
import { atView } from './webhooks/options.ts'

export interface Making {
  json: boolean
  why: string
  /** null = whatever is there. */
  isNeeded: ((pool: Pool, projection: Projection) => Promise<boolean>) | null
}

/** Makes views one after the other, and tells how far it is. Throws a Complaint when one cannot be made; those before
 *  it are. */
export async function makeViews (wanted: readonly Projection[], making: Making): Promise<void> {
  const signal = stopped()
  await atBuilder('error', async ({ builder, pool }) => {
    for (const projection of wanted) await makeView(projection, { builder, pool, signal, ...making })
  }).catch(error => {
    throw signal.aborted
      ? new Complaint('Interrupted: what is done stays, and the same command goes on from there.')
      : error
  })
}

async function makeView (
  projection: Projection,
  { builder, pool, signal, json, why, isNeeded }: Making & { builder: Rebuilder, pool: Pool, signal: AbortSignal }
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
      json ? JSON.stringify({ projection: name, version, made: false }) : `${name} ${version}: is there already`
    )
  }
  const { facts } = made
  const [seconds, perS] = [Math.round(made.seconds * 100) / 100, Math.round(facts / Math.max(made.seconds, 0.001))]
  console.log(
    json
      ? JSON.stringify({ projection: name, version, made: true, facts, seconds, facts_per_second: perS })
      : `${name} ${version}: made from ${number(facts)} facts in ${seconds} s, ${number(perS)} a second`
  )
}

/** What the running service stands on, and who makes its views. */
export interface Hands {
  bus: Bus
  pool: Pool
  builder: Rebuilder
}

/** With the servers of the running service, or those of NATS_URL and DATABASE_URL. */
export async function atBuilder<T> (logLevel: string, use: (hands: Hands) => Promise<T>): Promise<T> {
  const config = readConfig(process.env)
  const log = createLog(logLevel)
  const bus = await openBus(config, log)
  try {
    return await atView(async pool =>
      await use({ bus, pool, builder: openRebuilder({ bus, pool, log, ...serversOf(config) }) })
    )
  } finally {
    await bus.close()
  }
}

/** Of servers that answer already. */
function serversOf (config: Config): Servers {
  const kept = config.natsUrl !== null && config.databaseUrl !== null ? null : readServers(config.dataDir)
  return {
    natsUrl: config.natsUrl ?? kept!.nats!,
    natsCreds: config.natsCreds,
    databaseUrl: config.databaseUrl ?? kept!.postgres!
  }
}

const WIDTH = 30
/** Between two lines where there is no terminal to draw a bar on. */
const LINE_MS = 5000

/** How far it is, on stderr: a bar that is drawn over on a terminal, else a line now and then. */
function openBar (name: string): { show(progress: RebuildProgress): void, end(): void } {
  let saidMs = performance.now()
  return {
    show (progress) {
      if (process.stderr.isTTY) return drawOver(barText(name, progress))
      if (performance.now() - saidMs < LINE_MS) return
      saidMs = performance.now()
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
