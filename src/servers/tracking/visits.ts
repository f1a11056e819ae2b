import { Counter, Gauge, type Registry } from 'prom-client'
import type { Engagement } from '#streams/email/engagements.ts'
import type { Services } from '#src/actions/services.ts'
import { recipientRefOf, occasionNow, recordEngagement } from '#src/actions/recipient.ts'
import { deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Pointer } from '#src/content/token.ts'
import { Backlog, type BacklogDrop, type BacklogLimits } from './backlog.ts'

/** Records opens and clicks in the log. */
export interface Visits {
  /** Resolves once it is durable, or after a second: the reader of a mail does not wait for our log. It is then
   *  recorded later, with the present time. */
  record(pointer: Pointer, engagement: Engagement): Promise<void>
  /** Waits for the records under way, 3 s at most. */
  stop(): Promise<void>
}

export interface VisitsOptions {
  services: Services
  registry: Registry
  log: Log
}

const ANSWER_MS = 1000
/** Below what HTTP may take to stop. */
const STOP_MS = 3000
/** A job holds a link of 4 kB at most: 40 MB in all, more than a minute of 150 clicks a second. A mail has several
 *  readers when its address is a mailing list's. */
const LIMITS: BacklogLimits = {
  jobsMax: 10_000,
  jobsPerKeyMax: 50,
  concurrency: 64,
  ageMsMax: 900_000,
  pauseMs: 200,
  pauseMsMax: 5000
}
const LOG_EVERY_MS = 10_000

export function openVisits ({ services, registry, log }: VisitsOptions): Visits {
  const backlog = new Backlog(LIMITS, countDrops(registry, log))
  new Gauge({
    name: 'jetpost_visits_waiting',
    help: 'Opens and clicks that wait to be recorded',
    registers: [registry],
    collect () {
      this.set(backlog.waiting())
    }
  })

  async function record (pointer: Pointer, engagement: Engagement): Promise<void> {
    const { appenders } = services
    const occasion = occasionNow(appenders)
    const stored = backlog.add(`${pointer.email}.${pointer.n}`, async () => {
      const ref = await recipientRefOf(appenders, pointer)
      if (ref !== null) await recordEngagement(appenders, ref, engagement, occasion)
    })
    await deadline(stored, ANSWER_MS, 'not recorded in time').catch(() => {})
  }

  return { record, stop: () => backlog.stop(STOP_MS) }
}

/** Each drop is counted; the log gets one line in 10 s, also in a flood. */
function countDrops (registry: Registry, log: Log): (drop: BacklogDrop) => void {
  const counter = new Counter({
    name: 'jetpost_visits_dropped_total',
    help: 'Opens and clicks that were not recorded, by reason',
    labelNames: ['reason'],
    registers: [registry]
  })
  let dropped = 0
  let nextLogMs = 0
  return ({ reason, count, error }) => {
    counter.inc({ reason }, count)
    dropped += count
    if (reason !== 'stopped' && performance.now() < nextLogMs) return
    log.warn({ dropped, reason, ...(error === null ? {} : { err: error }) }, 'opens or clicks are dropped')
    dropped = 0
    nextLogMs = performance.now() + LOG_EVERY_MS
  }
}
