import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { isErased } from '#streams/email/erase.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { COLUMNS, eachCount, NOTHING, type Counted, type Counts } from '../counts.ts'
import { json, sql, type Projection, type Sql } from '../define.ts'
import { countsForSender, countsIn, type Count } from './count.ts'
import { recount, remember } from './recount.ts'

/** How many recipients, by hour: the rows behind GET /api/stats. What counts is added up, so each fact comes once, the
 *  checkpoint sees to it, and there is no law to merge by. Only those that stand in the place of others tell again what
 *  has been counted already, or has not. Test addresses say nothing of a sender: they count for their destination
 *  alone. */
export const stats: Projection = {
  name: 'stats',
  version: 3,
  streams: [{ stream: 'EMAILS', filter: 'email.>' }],
  aging: {
    stream: 'EMAILS',
    rows: horizonMs => {
      const old = sql`hour < to_timestamp(${horizonMs}::float8 / 1000)`
      return { stats_hours: old, stats_destinations: old, stats_recipients: old }
    }
  },
  project
}

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const counts = facts.filter(({ fact }) => !tellsAgain(fact)).flatMap(countsIn)
  const again = facts.filter(({ fact }) => tellsAgain(fact)).flatMap(countsIn)
  return [
    ...(counts.length === 0 ? [] : [addHours(counts), addDestinations(counts), rememberAll(counts)]),
    ...recount(again)
  ]
}

function tellsAgain (fact: AnyFact): boolean {
  return fact.type === 'email.erased' ||
    (fact.type === 'email.recorded' && fact.data.recipients.some(({ address }) => isErased(address)))
}

const ADDED = eachCount(column => sql`${column} = old.${column} + excluded.${column}`)

function addHours (counts: Count[]): Sql {
  const rows = new Map<string, Counts>()
  for (const { account, hour, domain, tags, counted } of counts.filter(countsForSender)) {
    for (const tag of ['', ...tags]) {
      tally(rows, `${account} ${hour} ${domain} ${tag}`, { account, tag, hour, domain }, counted)
    }
  }
  return sql`
    insert into stats_hours as old (account, tag, hour, domain, ${COLUMNS})
    select account, tag, hour, domain, ${COLUMNS} from json_populate_recordset(null::stats_hours, ${
    json([...rows.values()])
  }::json)
    order by account, tag, hour, domain
    on conflict (account, tag, hour, domain) do update set ${ADDED}`
}

function addDestinations (counts: Count[]): Sql {
  const rows = new Map<string, Counts>()
  for (const { account, hour, destination, counted } of counts) {
    tally(rows, `${account} ${hour} ${destination}`, { account, destination, hour }, counted)
  }
  return sql`
    insert into stats_destinations as old (account, destination, hour, ${COLUMNS})
    select account, destination, hour, ${COLUMNS} from json_populate_recordset(null::stats_destinations, ${
    json([...rows.values()])
  }::json)
    order by account, destination, hour
    on conflict (account, destination, hour) do update set ${ADDED}`
}

/** One more in the row of that key. In place: a fold that copies a row of many columns for each count takes most of a
 *  batch's time. */
function tally (rows: Map<string, Counts>, key: string, names: object, counted: Counted): void {
  let row = rows.get(key)
  if (row === undefined) rows.set(key, row = { ...names, ...NOTHING })
  row[counted]++
}

/** Of a recipient in an hour. What stands before `told` is of those who were accepted in it. */
interface Memory {
  hour: string
  email: string
  n: number
  asked?: string
  account?: string
  domain?: string
  tags?: string[]
  told?: string
  seqs: number[]
  erased: number[]
}

/** Remembers what has just been added. Of somebody who was accepted before it is taken away again: an erasure may have
 *  written a new record of an email whose own was still on its way. */
function rememberAll (counts: Count[]): Sql {
  const rows = new Map<string, Memory>()
  for (const { hour, email, n, seq, destination, account, domain, tags } of counts) {
    const key = `${hour} ${email} ${n}`
    const row = rows.get(key) ?? { hour, email, n, seqs: [], erased: [] }
    rows.set(key, row)
    if (seq === 0) Object.assign(row, { asked: destination, account, domain, tags })
    else if (destination === '') row.erased.push(seq)
    else {
      row.told = destination
      row.seqs.push(seq)
    }
  }
  return sql`
    with given as (
      select * from json_to_recordset(${
    json([...rows.values()].map(row => ({ ...row, seqs: sorted(row.seqs), erased: sorted(row.erased) })))
  }::json)
        as given (hour timestamptz, email text, n smallint, asked text, account text, domain text, tags text[],
          told text, seqs bigint[], erased bigint[])
    ), again as (
      select given.* from given join stats_recipients old on old.hour = given.hour and old.email = given.email
        and old.n = given.n
      where given.asked is not null and old.asked is not null
    ), by_hour as (
      update stats_hours old set accepted = old.accepted - twice.count
      from (
        select account, tag, hour, domain, count(*) as count
        from (
          select again.*, unnest(array_prepend('', tags)) as tag from again where asked <> ${SANDBOX_DOMAIN}
        ) as each_tag
        group by account, tag, hour, domain) as twice
      where old.account = twice.account and old.tag = twice.tag and old.hour = twice.hour and old.domain = twice.domain
    ), by_destination as (
      update stats_destinations old set accepted = old.accepted - twice.count
      from (select account, asked, hour, count(*) as count from again group by account, asked, hour) as twice
      where old.account = twice.account and old.destination = twice.asked and old.hour = twice.hour
    ) ${remember(sql`select hour, email, n, asked, told, seqs, erased from given order by hour, email, n`)}`
}

/** As the table has them: none at all is null. */
function sorted (seqs: number[]): number[] | null {
  return seqs.length === 0 ? null : seqs.sort((a, b) => a - b)
}
