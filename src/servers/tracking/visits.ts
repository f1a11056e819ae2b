import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Engagement } from '#streams/email/engagements.ts'
import { occasionNow, recipientRefOf, recordEngagement } from '#src/actions/recipient.ts'
import type { Services } from '#src/actions/services.ts'
import { deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Pointer } from '#src/content/token.ts'
import { Backlog, type BacklogDrop, type BacklogLimits } from './backlog.ts'
import { errorPage } from './pages.ts'
import { isProgram } from './visitor.ts'

/** One transparent pixel (GIF89a, 43 bytes): a screen of 1 × 1 with two colours, the first transparent, and one image
 *  of one pixel. */
const PIXEL = Buffer.from(
  [
    '474946383961',
    '0100',
    '0100',
    '800000',
    'ffffff000000',
    '21f90401000000',
    '00',
    '2c0000000001000100',
    '00',
    '0202440100',
    '3b'
  ].join(''),
  'hex'
)

/** GET /o/<token>.gif. The answer is always the same: it does not reveal which tokens are ours. */
export function openRoute (app: FastifyInstance, services: Services, visits: Visits): void {
  app.get<TokenPath>('/o/*', async (request, reply) => {
    const pointer = request.method === 'HEAD' ? null : services.tokens.read('open', tokenOf(request))
    if (pointer !== null) {
      await visits.record(pointer, { type: 'email.opened', data: { machine: isProgram(request.headers) } })
    }
    // Web mail that isolates its origin may still load it.
    return await reply.header('cross-origin-resource-policy', 'cross-origin').type('image/gif').send(PIXEL)
  })
}

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
    const { factLog } = services
    const occasion = occasionNow(factLog)
    const stored = backlog.add(`${pointer.email}.${pointer.n}`, async () => {
      const ref = await recipientRefOf(factLog, pointer)
      if (ref !== null) await recordEngagement(factLog, ref, engagement, occasion)
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

/** The rest of the path after `/o/`, `/c/` or `/u/`. */
export type TokenPath = { Params: { '*': string } }

/** The token in a path, without what mail programs append to a URL in plain text: a full stop, a bracket, the `=` of a
 *  soft line break. */
export function tokenOf (request: FastifyRequest<TokenPath>): string {
  return /^[0-9a-z]*/i.exec(request.params['*'])![0]
}

/** GET /c/<token>. The target URL is in the token alone, under our MAC: nobody else can make us redirect anywhere. HEAD
 *  is answered and not counted. */
export function clickRoute (app: FastifyInstance, services: Services, visits: Visits): void {
  app.get<TokenPath>('/c/*', async (request, reply) => {
    const link = services.tokens.readClick(request.params['*'])
    const target = link === null ? null : webUrl(link.url)
    if (link === null || target === null) return await errorPage(reply, 404)
    const { pointer, url } = link
    if (request.method !== 'HEAD') {
      await visits.record(pointer, { type: 'email.clicked', data: { url, machine: isProgram(request.headers) } })
    }
    return await reply.code(302).header('location', target).send()
  })
}

/** As a browser normalizes it, so that it fits a header; null when it is not an http or https URL. */
function webUrl (text: string): string | null {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) ? url.href : null
}
