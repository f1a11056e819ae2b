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
import { monthOf, monthStartMs } from '#streams/usage/months.ts'
import { parseTime, timestamp, type Clock } from '#src/base/clock.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { refuseFaults, schemaFaults, type Api } from './context.ts'
import type { Fault } from './errors.ts'
import { timeMessage } from './params.ts'

const Time = (name: string) => Type.Optional(Type.String({ maxLength: 40, description: timeMessage(name) }))
const Domain = (name: string) =>
  Type.Optional(Type.String({ maxLength: 253, description: `${name} is the name of a domain.` }))

const StatsQuery = Type.Object({
  interval: Type.Optional(
    Type.Union(INTERVALS.map(name => Type.Literal(name)), {
      description: `interval is one of ${INTERVALS.join(', ')}.`
    })
  ),
  from: Time('from'),
  to: Time('to'),
  domain: Domain('domain'),
  tag: Type.Optional(Type.String({ minLength: 1, maxLength: 128, description: 'tag has 1 to 128 characters.' })),
  destination: Domain('destination'),
  group_by: Type.Optional(
    Type.Union(GROUPS.map(name => Type.Literal(name)), { description: `group_by is one of ${GROUPS.join(', ')}.` })
  )
}, { additionalProperties: false })

/** A month of hours, two years of days. */
const BUCKETS_MAX = 744
const GROUPS_MAX = 100
const TOO_MANY = `There are at most ${BUCKETS_MAX} buckets: take a later from, or a longer interval.`
/** How many buckets there are when nobody says since when. */
const BUCKETS_DEFAULT: Record<Interval, number> = { hour: 24, day: 30, month: 12 }

const DESCRIPTION =
  `How many recipients mail was accepted for, and what became of it. Each thing counts in the hour (UTC) in which it happened, so a click of today
on a mail of yesterday is today's. Without \`from\` it is the last 24 hours, 30 days or 12 months; \`from\` and \`to\` are widened to whole buckets, of which there are
at most ${BUCKETS_MAX}. All filters given must hold; \`domain\` = the sender's, \`destination\` = the recipient's.

A recipient that was tried again after a bounce may count as both \`bounced\` and \`delivered\`, and so does one whose mail came back later. Opens and clicks by programs are not
counted; the email's timeline has them. Mail of test keys is counted like any other. Recipients that were erased stay in all counts; their \`destination\` is the empty one.

Unlike other reads this one may be a second behind: mail counts as accepted once it is written down for it.

Hours and days are known for as long as what happened to mail is kept. Months are closed from the fourth day after they end on, and then stay for ever by \`domain\`;
by \`tag\` and \`destination\` they go with their days.`

/** What the figures are asked for; times in Unix ms, at the beginnings of buckets. */
interface Asked {
  interval: Interval
  fromMs: number
  toMs: number
  which: Which
  by: GroupBy | null
}

export function statsRoutes (app: Api, reads: Reads, clock: Clock): void {
  app.get('/stats', {
    config: { scope: 'emails:read' },
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
    const { asked, faults } = readQuery(request.query, schemaFaults(request), request.key!.account, clock.nowMs())
    refuseFaults(request, faults)
    return await answer(reads, asked)
  })
}

async function answer (reads: Reads, asked: Asked): Promise<Static<typeof StatsRecord>> {
  const { interval, fromMs, toMs, by } = asked
  const closed = await closedIn(reads, asked)
  const open = { ...asked, except: [...closed.months.keys()] }
  const counted = await answerFrom(reads, stats, countsByTime(open))
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
          ...await answerFrom(reads, stats, countsByName({ ...open, by, limit: GROUPS_MAX }))
        ])
      })
  }
}

/** What closed months say, where they can: they know domains, and neither tags nor destinations. */
async function closedIn (
  reads: Reads,
  { interval, fromMs, toMs, which, by }: Asked
): Promise<{ months: Map<string, Counts>, groups: Group[] }> {
  const { account, domain, tag, destination } = which
  if (interval !== 'month' || tag !== null || destination !== null || by === 'tag' || by === 'destination') {
    return { months: new Map(), groups: [] }
  }
  const options: UsageQueryOptions = { account, domain, firstMonth: monthOf(fromMs), lastMonth: monthOf(toMs - 1) }
  const months = await answerFrom(reads, usage, closedMonths(options))
  const groups = by === null ? [] : await answerFrom(reads, usage, closedDomains(options))
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
  known: Fault[],
  account: string,
  nowMs: number
): { asked: Asked, faults: Fault[] } {
  const faults: Fault[] = []
  const say = (field: string, code: string, message: string) => void faults.push({ field, code, message })
  function read<T> (field: keyof typeof query, parse: (text: string) => T | null, code: string): T | null {
    const text = query[field]
    if (text === undefined || known.some(fault => fault.field === field)) return null
    const value = parse(text)
    if (value === null) say(field, code, StatsQuery.properties[field].description!)
    return value
  }
  const interval = known.some(({ field }) => field === 'interval') ? 'day' : query.interval ?? 'day'
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
  if (faults.length === 0 && fromMs >= toMs) say('from', 'invalid_value', 'from is before to.')
  if (faults.length === 0 && countOf(interval, fromMs, toMs) > BUCKETS_MAX) say('from', 'too_many_buckets', TOO_MANY)
  if (query.tag?.includes('\0') === true) say('tag', 'invalid_characters', 'tag holds NUL.')
  if (isMixed(query)) {
    say(
      'destination',
      'not_combinable',
      'destination is counted apart: it cannot be combined with domain or tag, neither as a filter nor as a group.'
    )
  }
  return { asked: { interval, fromMs, toMs, which, by }, faults }
}

function isMixed ({ domain, tag, destination, group_by: by }: Static<typeof StatsQuery>): boolean {
  const bySender = domain !== undefined || tag !== undefined || by === 'domain' || by === 'tag'
  return bySender && (destination !== undefined || by === 'destination')
}

/** A time in the years that computers have seen, and some more: its bucket has a beginning and an end that can be
 *  written. */
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
