import { Type, type Static } from '@sinclair/typebox'
import { NOTHING, plus, type Counts } from '#projections/counts.ts'
import { stats } from '#projections/stats/project.ts'
import {
  countsByName,
  countsByTime,
  GROUPS,
  INTERVALS,
  type Group,
  type GroupBy,
  type Interval,
  type Which
} from '#projections/stats/queries.ts'
import { figuresOf, StatsRecord } from '#projections/stats/records.ts'
import { usage } from '#projections/usage/project.ts'
import { closedDomains, closedMonths, type UsageQueryOptions } from '#projections/usage/queries.ts'
import { parseDomain } from '#streams/address.ts'
import type { FieldFault } from '#streams/define.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { monthOf, monthStartMs } from '#streams/usage/facts.ts'
import { parseTime, timestamp, type Clock } from '#src/base/clock.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { refuseFaults, schemaFaults, type Api } from './context.ts'
import { FaultList } from './errors.ts'
import type { FaultWords } from './faults.ts'
import { MUST_BE_TIME, textReader } from './params.ts'

const MUST_BE_YEAR = `${MUST_BE_TIME}, from 1970 to 2199`
const MUST_BE_DOMAIN = 'be a domain like example.com'

const time = (description: string) => Type.Optional(Type.String({ maxLength: 40, must: MUST_BE_YEAR, description }))
const domain = (description: string) =>
  Type.Optional(Type.String({ maxLength: 253, must: MUST_BE_DOMAIN, description }))

const StatsQuery = Type.Object({
  interval: Type.Optional(
    Type.Union(INTERVALS.map(name => Type.Literal(name)), { description: 'Length of a bucket. `day` when left out.' })
  ),
  from: time('Start of the first bucket; rounded down. The last 24 hours, 30 days or 12 months when left out.'),
  to: time('End of the last bucket; rounded up. Now when left out.'),
  domain: domain('Domain of the sender.'),
  tag: Type.Optional(Type.String({ minLength: 1, maxLength: 128, description: 'One of the tags.' })),
  destination: domain('Domain of the recipient.'),
  group_by: Type.Optional(
    Type.Union(GROUPS.map(name => Type.Literal(name)), { description: 'Also lists totals by these. At most 100.' })
  )
}, { additionalProperties: false })

/** A month of hours, two years of days. */
const BUCKETS_MAX = 744
const GROUPS_MAX = 100
/** How many buckets there are without `from`. */
const BUCKETS_DEFAULT: Record<Interval, number> = { hour: 24, day: 30, month: 12 }

const DESCRIPTION =
  `How many recipients mail was accepted for, and what became of it. Everything counts in the hour (UTC) in which it
happened: a click of today on a mail of yesterday counts today. At most ${BUCKETS_MAX} buckets. All given filters
must hold.

A recipient that was retried after a bounce may count as both \`bounced\` and \`delivered\`, and so does one whose mail
came back later. Opens and clicks by programs are not counted; the email's timeline has them. Mail of test keys is
counted like any other. Erased recipients stay in all counts, with an empty \`destination\`. Test addresses, those of
\`${SANDBOX_DOMAIN}\`, are left out: what becomes of their mail is made up. They count as a \`destination\` alone.

Unlike other reads this one may be a second behind: mail counts as accepted once it is recorded for that.

Hours and days are kept for as long as events are. Months are closed on the fourth day after they end, and then kept for
ever by \`domain\`; by \`tag\` and \`destination\` they go with their days.`

/** What is to be counted; times in Unix ms, at the starts of buckets. */
interface StatsRequest {
  interval: Interval
  fromMs: number
  toMs: number
  which: Which
  by: GroupBy | null
}

export function statsRoutes (app: Api, reads: Reads, clock: Clock): void {
  app.get('/stats', {
    config: { scope: 'emails:list' },
    schema: {
      operationId: 'getStats',
      summary: 'Count what became of mail',
      description: DESCRIPTION,
      tags: ['Stats'],
      querystring: StatsQuery,
      response: { 200: StatsRecord }
    },
    attachValidation: true
  }, async request => {
    const { asked, faults } = readQuery(request.query, schemaFaults(request), request.principal!.account, clock.nowMs())
    refuseFaults(request, faults)
    return await answer(reads, asked)
  })
}

async function answer (reads: Reads, asked: StatsRequest): Promise<Static<typeof StatsRecord>> {
  const { interval, fromMs, toMs, by, which: { account } } = asked
  const closed = await closedIn(reads, asked)
  const open = { ...asked, except: [...closed.months.keys()] }
  const counted = await answerFrom(reads, account, stats, countsByTime(open))
  const byStart = new Map(counted.map(({ startMs, counts }) => [startMs, counts]))
  for (const [month, counts] of closed.months) byStart.set(monthStartMs(month), counts)
  const buckets = startsOf(interval, fromMs, toMs).map(startMs => ({
    startMs,
    counts: byStart.get(startMs) ?? NOTHING
  }))
  return {
    interval,
    from: timestamp(fromMs),
    to: timestamp(toMs),
    totals: figuresOf(buckets.map(({ counts }) => counts).reduce(plus, NOTHING)),
    buckets: buckets.map(({ startMs, counts }) => ({ start: timestamp(startMs), ...figuresOf(counts) })),
    ...(by === null
      ? {}
      : {
        groups: largest([
          ...closed.groups,
          ...await answerFrom(reads, account, stats, countsByName({ ...open, by, limit: GROUPS_MAX }))
        ])
      })
  }
}

/** The counts of closed months, where they have them: by domain, not by tag or destination. */
async function closedIn (
  reads: Reads,
  { interval, fromMs, toMs, which, by }: StatsRequest
): Promise<{ months: Map<string, Counts>, groups: Group[] }> {
  const { account, domain, tag, destination } = which
  if (interval !== 'month' || tag !== null || destination !== null || by === 'tag' || by === 'destination') {
    return { months: new Map(), groups: [] }
  }
  const options: UsageQueryOptions = { account, domain, firstMonth: monthOf(fromMs), lastMonth: monthOf(toMs - 1) }
  const months = await answerFrom(reads, account, usage, closedMonths(options))
  const groups = by === null ? [] : await answerFrom(reads, account, usage, closedDomains(options))
  return { months: new Map(months.map(({ month, counts }) => [month, counts])), groups }
}

function largest (groups: Group[]): StatsRecord['groups'] {
  const byName = new Map<string, Counts>()
  for (const { name, counts } of groups) byName.set(name, plus(byName.get(name) ?? NOTHING, counts))
  return [...byName].sort(([a, x], [b, y]) => y.accepted - x.accepted || (a < b ? -1 : 1)).slice(0, GROUPS_MAX).map((
    [name, counts]
  ) => ({ name, ...figuresOf(counts) }))
}

/** What a query asks for, and the faults of meaning in it where the schema has found none (`known`). */
function readQuery (
  query: Static<typeof StatsQuery>,
  known: FieldFault[],
  account: string,
  nowMs: number
): { asked: StatsRequest, faults: FieldFault[] } {
  const faults = new FaultList(known)
  const readText = textReader(query, faults)
  const read = <T>(field: keyof typeof query, parse: (text: string) => T | null, code: string) =>
    readText(field, parse, code, (StatsQuery.properties[field] as FaultWords).must)
  const interval = faults.has('interval') ? 'day' : query.interval ?? 'day'
  const toMs = endOf(interval, read('to', parseYear, 'invalid_value') ?? nowMs)
  const fromMs = startOf(
    interval,
    read('from', parseYear, 'invalid_value') ?? move(interval, toMs, -BUCKETS_DEFAULT[interval])
  )
  const which = {
    account,
    domain: read('domain', parseDomain, 'invalid_domain'),
    tag: query.tag ?? null,
    destination: read('destination', parseDomain, 'invalid_domain')
  }
  const by = query.group_by ?? null
  if (faults.all.length === known.length) {
    if (fromMs >= toMs) faults.must('from', 'invalid_value', 'be before to')
    else if (countOf(interval, fromMs, toMs) > BUCKETS_MAX) {
      faults.must('from', 'too_many_buckets', `be at most ${BUCKETS_MAX} intervals before to`)
    }
  }
  if (!faults.has('tag') && query.tag?.includes('\0') === true) {
    faults.must('tag', 'invalid_characters', 'not contain NUL')
  }
  if (isMixed(query)) {
    faults.must('destination', 'not_combinable', 'not be combined with domain or tag, as a filter or as a group')
  }
  return { asked: { interval, fromMs, toMs, which, by }, faults: faults.all.slice(known.length) }
}

function isMixed ({ domain, tag, destination, group_by: by }: Static<typeof StatsQuery>): boolean {
  const bySender = domain !== undefined || tag !== undefined || by === 'domain' || by === 'tag'
  return bySender && (destination !== undefined || by === 'destination')
}

/** A time whose bucket has a start and an end that can be written. */
function parseYear (text: string): number | null {
  const ms = parseTime(text)
  return ms !== null && ms >= 0 && ms < Date.UTC(2200) ? ms : null
}

function startOf (interval: Interval, ms: number): number {
  return interval === 'month' ? monthStartMs(monthOf(ms)) : ms - ms % LENGTHS_MS[interval]
}

/** The end of the bucket in which something happens just before `ms`. */
function endOf (interval: Interval, ms: number): number {
  return move(interval, startOf(interval, ms - 1), 1)
}

const LENGTHS_MS = { hour: 3_600_000, day: 86_400_000 }

/** So many buckets later. */
function move (interval: Interval, startMs: number, by: number): number {
  if (interval !== 'month') return startMs + by * LENGTHS_MS[interval]
  const start = new Date(startMs)
  return start.setUTCMonth(start.getUTCMonth() + by)
}

function countOf (interval: Interval, fromMs: number, toMs: number): number {
  if (interval !== 'month') return (toMs - fromMs) / LENGTHS_MS[interval]
  const [from, to] = [new Date(fromMs), new Date(toMs)]
  return (to.getUTCFullYear() - from.getUTCFullYear()) * 12 + to.getUTCMonth() - from.getUTCMonth()
}

function startsOf (interval: Interval, fromMs: number, toMs: number): number[] {
  return Array.from({ length: countOf(interval, fromMs, toMs) }, (_, i) => move(interval, fromMs, i))
}
