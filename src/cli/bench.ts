import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { timestamp } from '#src/base/clock.ts'
import { Complaint } from '#src/base/errors.ts'
import type { Jetpost } from '#src/client/client.ts'
import { closedLoop, quantile, type Shot } from './bench/load.ts'
import { type CliCommand, misused, readArgs, usageError } from './command.ts'
import { drawOver } from './gauge.ts'
import { print, type TableRow } from './table.ts'
import { readApi, withApi } from './with-api.ts'

const options = {
  seconds: { type: 'string', default: '10' },
  'in-flight': { type: 'string', default: '50' }
} as const

const SECONDS_MAX = 3600
const IN_FLIGHT_MAX = 1000
/** Without one more delivered email for so long, the others are given up. */
const QUIET_MS_MAX = 30_000
const POLL_MS = 50
/** The clocks of this machine and of Jetpost's differ by less. */
const CLOCKS_APART_MS = 60_000

export const bench: CliCommand = {
  usage: 'jetpost bench [--seconds 10] [--in-flight 50] [--json]',
  details: `Sends mail to delivered@${SANDBOX_DOMAIN} through the API, as fast as it is answered. Shows how many
emails a second were accepted and delivered, and how long half of them (p50) and 99 % of them (p99) took
at most. Nothing leaves Jetpost; the emails stay in its log, with a tag that begins with "bench".

  Uses the API of the service that runs on the data folder, or of JETPOST_PUBLIC_URL, with JETPOST_API_KEY.
  The key must send and read emails, and have a limit that is high enough: see jetpost keys limit.
  --seconds <n>    how long to send, 1 to ${SECONDS_MAX}
  --in-flight <n>  requests under way at once, 1 to ${IN_FLIGHT_MAX}`,
  async run (args) {
    const { values, positionals } = readArgs(args, options)
    if (positionals.length > 0) throw misused(bench)
    const durationMs = wholeNumber('seconds', values.seconds, SECONDS_MAX) * 1000
    const inFlight = wholeNumber('in-flight', values['in-flight'], IN_FLIGHT_MAX)
    const rows = await withApi(async jetpost => await measure(jetpost, { durationMs, inFlight }))
    print(rows, values.json)
  }
}

function wholeNumber (option: string, text: string, max: number): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw usageError(`--${option} takes a whole number from 1 to ${max}.`)
  return value
}

/** When an email's request left and when its delivery was heard of; by `performance.now()`. */
interface Moments {
  begunMs: Map<string, number>
  deliveredMs: Map<string, number>
}

interface Wish {
  durationMs: number
  inFlight: number
}

async function measure (jetpost: Jetpost, wish: Wish): Promise<TableRow[]> {
  const moments: Moments = { begunMs: new Map(), deliveredMs: new Map() }
  const mail = mailWith(`bench ${randomUUID()}`)
  // What the load cannot tell in words, such as that the key may not send, the client does.
  await jetpost.emails.send(mail)
  const end = new AbortController()
  const failed = followDeliveries(jetpost, mail.tags[0]!, moments, end.signal).then(() => null, (error: Error) => error)
  try {
    const beginMs = performance.now()
    const shots = await load(jetpost, JSON.stringify(mail), wish, moments)
    const error = await Promise.race([failed, untilDelivered(moments)])
    if (error !== null) throw error
    return rowsOf(shots, beginMs, moments)
  } finally {
    end.abort()
    drawOver('')
  }
}

function mailWith (tag: string) {
  const html = `<h1>Hello</h1>${'<p>The quick brown fox jumps over the lazy dog.</p>'.repeat(40)}`
  return {
    from: `bench@${SANDBOX_DOMAIN}`,
    to: `delivered@${SANDBOX_DOMAIN}`,
    subject: 'jetpost bench',
    html,
    tags: [tag]
  }
}

/** Until `signal`. An email's delivery may be heard of before the answer that has its id is read. */
async function followDeliveries (
  jetpost: Jetpost,
  tag: string,
  { deliveredMs }: Moments,
  signal: AbortSignal
): Promise<void> {
  const since = timestamp(Date.now() - CLOCKS_APART_MS)
  for await (const { event } of jetpost.events.tail({ type: ['email.delivered'], created_after: since, signal })) {
    if (event.data.tags.includes(tag)) deliveredMs.set(event.data.email_id, performance.now())
  }
}

/** All were accepted: throws a Complaint when one was not. */
async function load (
  jetpost: Jetpost,
  body: string,
  { durationMs, inFlight }: Wish,
  { begunMs, deliveredMs }: Moments
): Promise<Shot[]> {
  const { url, key } = await readApi()
  const refused = new AbortController()
  const shots = await closedLoop({
    url,
    key,
    body: () => body,
    inFlight,
    durationMs,
    signal: refused.signal,
    onShot ({ status, id, ms }) {
      if (status !== 202) return refused.abort()
      begunMs.set(id!, performance.now() - ms)
      drawOver(`${begunMs.size} accepted, ${deliveredMs.size} delivered`)
    }
  })
  const bad = shots.find(({ status }) => status !== 202)
  if (bad === undefined) return shots
  if (bad.status !== 429) {
    const answer = bad.status === 0 ? 'not answered' : `answered with ${bad.status}`
    throw new Complaint(`A request was ${answer}, after ${begunMs.size} accepted emails: see the log of Jetpost.`)
  }
  const { id, limits: { 'emails:send': limit } } = await jetpost.me()
  throw new Complaint(
    `The key may send ${limit} emails a minute: allow it more with jetpost keys limit ${id} emails:send=1000000`
  )
}

/** Until all that was accepted is delivered, or nothing more is for half a minute. */
async function untilDelivered ({ begunMs, deliveredMs }: Moments): Promise<null> {
  const missing = new Set(begunMs.keys())
  for (let quietMs = 0; missing.size > 0 && quietMs < QUIET_MS_MAX; quietMs += POLL_MS) {
    await sleep(POLL_MS)
    const before = missing.size
    for (const id of missing) if (deliveredMs.has(id)) missing.delete(id)
    if (missing.size < before) quietMs = 0
    drawOver(`${begunMs.size} accepted, ${begunMs.size - missing.size} delivered`)
  }
  return null
}

function rowsOf (shots: Shot[], beginMs: number, { begunMs, deliveredMs }: Moments): TableRow[] {
  const accepted = shots.map(({ id, ms }) => ({ ms, endMs: begunMs.get(id!)! + ms }))
  const delivered = [...begunMs].flatMap(([id, fromMs]) => {
    const endMs = deliveredMs.get(id)
    return endMs === undefined ? [] : [{ ms: endMs - fromMs, endMs }]
  })
  return Object.entries({ accepted, delivered }).map(([emails, done]) => {
    const times = done.map(({ ms }) => ms).sort((a, b) => a - b)
    const spanS = (Math.max(...done.map(({ endMs }) => endMs)) - beginMs) / 1000
    return {
      emails,
      count: done.length,
      per_second: rounded(done.length / spanS),
      p50_ms: rounded(quantile(times, 0.5)),
      p99_ms: rounded(quantile(times, 0.99))
    }
  })
}

/** To a tenth; null for what there is not. */
function rounded (value: number): number | null {
  return Number.isFinite(value) ? Math.round(value * 10) / 10 : null
}
