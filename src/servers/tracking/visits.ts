import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { isbot } from 'isbot'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Engagement } from '#streams/email/engagements.ts'
import { isErased } from '#streams/email/erase.ts'
import { recipientRefOf, recordEngagement, type RecipientRef } from '#src/actions/recipient.ts'
import { occasionNow } from '#src/actions/fact-log.ts'
import type { Services } from '#src/actions/services.ts'
import { deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Pointer } from '#src/content/token.ts'
import { Backlog, DROP_REASONS, type BacklogDrop, type BacklogLimits } from './backlog.ts'
import { errorPage } from './pages.ts'

/** They fetch a mail's images for its reader, or before anybody reads it, and hide by whom and when. An open through
 *  them says only that the mail arrived. */
const IMAGE_PROXIES = [
  // Gmail and Workspace, when the mail is opened.
  /GoogleImageProxy|via ggpht\.com/i,
  // Gmail, ahead of any reader: a browser that has not existed since 2015, with a tail of its own.
  /Edge\/12\.246 Mozilla\/5\.0$/,
  // Apple's privacy proxy sends nothing more than this.
  /^Mozilla\/5\.0$/,
  /YahooMailProxy/i,
  /SeznamEmailProxy/i,
  /FastMail\//i
]

/** They follow a link before, or instead of, a person. */
const LINK_CHECKERS = [
  // Office follows a link before it opens a browser; Outlook itself names MSIE and its version between these words.
  /\(compatible; ms-office;/i,
  /Microsoft Office (Existence|Protocol) Discovery/i,
  /SafeLinks|BingPreview|SkypeUriPreview/i,
  /Barracuda|Mimecast|Proofpoint|IronPort|FireEye|Trend ?Micro|Symantec|MessageLabs|Sophos|Forcepoint/i
]

const PROGRAMS: readonly RegExp[] = [...IMAGE_PROXIES, ...LINK_CHECKERS]

/** Mail programs and text browsers that people use: their short names look like a robot's. */
const MAIL_PROGRAMS: readonly RegExp[] = [
  /^(Outlook-(iOS|Android)|MacOutlook|Microsoft Office)\//i,
  /Microsoft Outlook/i,
  /Thunderbird|Airmail|Postbox|Mailspring|BlueMail|eM ?Client|K-9 ?Mail|Android-?Mail|FairEmail|Lotus-Notes/i,
  /^(Spark|Canary|Evolution|KMail|Claws ?Mail|Sylpheed|Geary|Mutt|Mailbird|Mail|The Bat!?)([/ ]|$)/i,
  /^(Lynx|E?Links|w3m)([/ ]|$)/i
]

/** Requests for a page before anybody wants to see it. */
const AHEAD = /\b(prefetch|prerender|preview)\b/i
const AHEAD_HEADERS = ['purpose', 'sec-purpose', 'x-purpose', 'x-moz']

/** True when the headers of a GET show a program, and not a person's browser or mail program. Whether it came too early
 *  for a person needs the facts of the mail: see `streams/email/engagements.ts`. */
export function isProgram (headers: IncomingHttpHeaders): boolean {
  if (AHEAD_HEADERS.some(name => AHEAD.test(String(headers[name] ?? '')))) return true
  const agent = headers['user-agent']?.trim() ?? ''
  if (agent === '' || PROGRAMS.some(pattern => pattern.test(agent))) return true
  return !MAIL_PROGRAMS.some(pattern => pattern.test(agent)) && isbot(agent)
}

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

/** The recipient was erased: their address is unknown. */
export function isForgotten ({ request, n }: RecipientRef): boolean {
  return isErased(request.fact.data.recipients[n]!.address)
}

/** Records opens and clicks in the log. */
export interface Visits {
  /** Resolves once it is durable, or after a second: the reader of a mail does not wait for our log. It is then
   *  recorded later, with the present time. `erased` = the recipient is known to be: nothing more is recorded. */
  record(pointer: Pointer, engagement: Engagement): Promise<{ erased: boolean }>
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

  async function record (pointer: Pointer, engagement: Engagement): Promise<{ erased: boolean }> {
    const { factLog } = services
    const occasion = occasionNow(factLog)
    let erased = false
    const stored = backlog.add(`${pointer.email}.${pointer.n}`, async () => {
      const ref = await recipientRefOf(factLog, pointer)
      erased = ref !== null && isForgotten(ref)
      if (ref !== null && !erased) await recordEngagement(factLog, ref, engagement, occasion)
    })
    await deadline(stored, ANSWER_MS, 'not recorded in time').catch(() => {})
    return { erased }
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
  // From 0 on: of a series that begins with its first event, `increase()` sees no increase.
  for (const reason of DROP_REASONS) counter.inc({ reason }, 0)
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

/** GET /c/<token>. The target URL is in the token alone, under our MAC: nobody else can make us redirect anywhere. 410
 *  once the recipient is erased, as far as our log says so in time. HEAD is answered and not counted. */
export function clickRoute (app: FastifyInstance, services: Services, visits: Visits): void {
  app.get<TokenPath>('/c/*', async (request, reply) => {
    const link = services.tokens.readClick(request.params['*'])
    const target = link === null ? null : webUrl(link.url)
    if (link === null || target === null) return await errorPage(reply, 404)
    const { pointer, url } = link
    if (request.method !== 'HEAD') {
      const data = { url, machine: isProgram(request.headers) }
      if ((await visits.record(pointer, { type: 'email.clicked', data })).erased) return await errorPage(reply, 410)
    }
    return await reply.code(302).header('location', target).send()
  })
}

/** As a browser normalizes it, so that it fits a header; null when it is not an http or https URL. */
function webUrl (text: string): string | null {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) ? url.href : null
}
