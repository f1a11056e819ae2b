import { Counter, Gauge, type Registry } from 'prom-client'
import type { Engagement } from '#streams/email/engagements.ts'
import type { Services } from '#src/actions/services.ts'
import { recipientRefOf, occasionNow, recordEngagement } from '#src/actions/recipient.ts'
import { deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Pointer } from '#src/content/token.ts'
import { createBacklog, type BacklogLimits, type Drop } from './backlog.ts'

/** Opens and clicks on their way into the log. */
export interface Visits {
  /** Resolves once it is durable, or after a second: whoever opens a mail or follows a link does not wait for our log.
   *  It is recorded later then, as of now. */
  record(pointer: Pointer, engagement: Engagement): Promise<void>
  /** Waits for what is on its way, 3 s at most. */
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
/** A job holds a link of 4 kB at most: 40 MB, more than a minute of 150 clicks a second. A mail has more readers than
 *  one when a list is behind its address. */
const LIMITS: BacklogLimits = {
  jobsMax: 10_000,
  laneJobsMax: 50,
  runningMax: 64,
  ageMsMax: 900_000,
  pauseMs: 200,
  pauseMsMax: 5000
}
const LINE_EVERY_MS = 10_000

export function openVisits ({ services, registry, log }: VisitsOptions): Visits {
  const backlog = createBacklog(LIMITS, countDrops(registry, log))
  new Gauge({
    name: 'jetpost_visits_waiting',
    help: 'Opens and clicks that are not in the log yet',
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
    await deadline(stored, ANSWER_MS, 'the log takes its time').catch(() => {})
  }

  return { record, stop: () => backlog.stop(STOP_MS) }
}

/** Each is counted; the log gets a line now and then, not one for each of a flood. */
function countDrops (registry: Registry, log: Log): (drop: Drop) => void {
  const counter = new Counter({
    name: 'jetpost_visits_dropped_total',
    help: 'Opens and clicks that were not recorded, by reason',
    labelNames: ['reason'],
    registers: [registry]
  })
  let dropped = 0
  let nextLineMs = 0
  return ({ reason, count, error }) => {
    counter.inc({ reason }, count)
    dropped += count
    if (reason !== 'stopped' && performance.now() < nextLineMs) return
    log.warn({ dropped, reason, ...(error === null ? {} : { err: error }) }, 'opens or clicks were not recorded')
    dropped = 0
    nextLineMs = performance.now() + LINE_EVERY_MS
  }
}
