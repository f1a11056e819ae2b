import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { COLUMNS, COUNTED, eachCount } from '../counts.ts'
import { json, Sql, sql } from '../define.ts'
import type { Count } from './count.ts'

/** What is told again after an erasure: who has seen it before knows it, and who rebuilds the projection has seen none
 *  of it, or what was not deleted yet. What has not been counted is counted now; who is forgotten counts for no
 *  destination any more. */
export function recount (told: Count[]): Sql[] {
  const byFact = new Map<string, Count>()
  for (const count of told) {
    const key = `${count.email} ${count.n} ${count.seq}`
    // Told twice in one batch, the one that no longer knows the person holds.
    if (!byFact.has(key) || count.destination === '') byFact.set(key, count)
  }
  const counts = [...byFact.values()]
  return counts.length === 0 ? [] : [count(counts), deleteEmpty(counts)]
}

const ADDED = eachCount(column => sql`${column} = old.${column} + excluded.${column}`)
/** A literal, not a parameter: `counted` is one of our own words. */
const STEPS = eachCount((_column, name) =>
  sql`coalesce(sum(step) filter (where counted = ${new Sql([`'${name}'`], [])}), 0)`
)

/** One statement, so that each part of it sees what was counted before: `before` = the destination under which it was,
 *  null = it was not. */
function count (counts: Count[]): Sql {
  return sql`
    with told as (
      select given.*, case when seq = 0 then old.asked when seq = any(old.seqs) then old.told
        when seq = any(old.erased) then '' end as before
      from json_to_recordset(${json(counts)}::json)
        as given (account text, email text, n smallint, hour timestamptz, seq bigint, counted text, domain text,
          tags text[], destination text)
      left join stats_recipients old on old.hour = given.hour and old.email = given.email and old.n = given.n
    ), by_hour as (
      insert into stats_hours as old (account, tag, hour, domain, ${COLUMNS})
      select account, tag, hour, domain, ${STEPS}
      from (
        select told.*, 1 as step, unnest(array_prepend('', tags)) as tag from told
        where before is null and destination <> ${SANDBOX_DOMAIN}
      ) as steps
      group by account, tag, hour, domain order by account, tag, hour, domain
      on conflict (account, tag, hour, domain) do update set ${ADDED}
    ), by_destination as (
      insert into stats_destinations as old (account, destination, hour, ${COLUMNS})
      select account, place, hour, ${STEPS}
      from told cross join lateral (values (destination, 1), (before, -1)) as steps (place, step)
      where place is not null and (before is null or (destination = '' and before <> ''))
      group by account, place, hour order by account, place, hour
      on conflict (account, destination, hour) do update set ${ADDED}
    ) ${
    remember(sql`
      select hour, email, n, max(destination) filter (where seq = 0), nullif(max(destination) filter (where seq > 0),
        ''),
        array_agg(seq order by seq) filter (where seq > 0 and destination <> ''), array_agg(seq
          order by seq) filter (where seq > 0 and destination = '')
      from told group by hour, email, n order by hour, email, n`)
  }`
}

/** Adds rows to what is known of recipients: what is forgotten stays so. */
export function remember (rows: Sql): Sql {
  return sql`
    insert into stats_recipients as old (hour, email, n, asked, told, seqs, erased)
    ${rows}
    on conflict (hour, email, n) do update set
      asked = least(old.asked, excluded.asked),
      (told, seqs, erased) = (
        select case when bool_or(not gone) then coalesce(old.told, excluded.told) end,
          array_agg(seq order by seq) filter (where not gone), array_agg(seq order by seq) filter (where gone)
        from (select seq, bool_or(gone) as gone from (
          select unnest(old.seqs || excluded.seqs) as seq, false as gone
            union all select unnest(old.erased || excluded.erased), true) as every group by seq) as each_seq
      )`
}

/** Where everybody is forgotten not even the name of the destination stays. */
function deleteEmpty (counts: Count[]): Sql {
  const total = COUNTED.map(name => new Sql([name], [])).reduce((left, right) => sql`${left} + ${right}`)
  const hours = [...new Set(counts.map(({ hour }) => hour))]
  const accounts = [...new Set(counts.map(({ account }) => account))]
  return sql`delete from stats_destinations where hour = any(${hours}::timestamptz[])
    and account = any(${accounts}::text[]) and ${total} = 0`
}
