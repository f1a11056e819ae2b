import t, { type Test } from 'tap'
import { sql } from '#projections/define.ts'
import { requestedIn } from '#projections/emails/requested.ts'
import { askedRow, asOf, findAsked, firstSchedule, type AskedRow, type Stored } from '#projections/emails/as-of.ts'
import { emails } from '#projections/emails/project.ts'
import { getEmail } from '#projections/emails/queries.ts'
import { rolledUp, rollUp, RecipientStatusSchema } from '#projections/emails/status.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { ERASED } from '#streams/address.ts'
import { redact, requestWithout } from '#streams/email/erase.ts'
import type { EmailErased, EmailRequested, RecipientFact } from '#streams/email/facts.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import {
  asIs,
  ACCOUNT,
  attempted,
  bounced,
  canceled,
  clicked,
  complained,
  deferred,
  delivered,
  failed,
  inDoubt,
  opened,
  recorded,
  requested,
  rescheduled,
  retryRequested,
  suppressed,
  timeAt,
  unsubscribed
} from '../support/facts.ts'
import { chanceOf, openChance, type Chance } from '../support/random.ts'
import { apply, clear, freshPool } from './view.ts'

t.test('the roll-up in memory is that of the tables, whatever the recipients are', async t => {
  const pool = await freshPool(t)
  const all = RecipientStatusSchema.anyOf.map(({ const: status }) => status)
  const sets = Array.from({ length: 2 ** all.length - 1 }, (_, i) => all.filter((_status, bit) => ((i + 1) >> bit) & 1))
  const rows = sets.flatMap((statuses, i) => statuses.flatMap(status => [{ i, status }, { i, status }]))
  const { text, values } = sql`select i, ${rollUp} as status from json_to_recordset(${
    JSON.stringify(rows)
  }::json) as given (i int, status text) group by i order by i`
  const { rows: answers } = await pool.query({ text, values: [...values] })
  t.equal(answers.length, 1023)
  t.same(sets.map(statuses => rolledUp(statuses)), answers.map(({ status }) => status))
})

/** Something that can happen to a recipient; what strangers say may hold what PostgreSQL does not take. */
const HAPPENINGS = [
  attempted,
  delivered,
  failed,
  inDoubt,
  suppressed,
  rescheduled,
  canceled,
  retryRequested,
  opened,
  clicked,
  complained,
  unsubscribed,
  (given: { email: string }) =>
    deferred({ ...given, reply: { code: 451, enhanced: '4.7.1', text: '451 4.7.1 l\0ter \ud800' } }),
  (given: { email: string }) =>
    deferred({ ...given, reply: null, error: 'connect ECONNREFUSED', host: null, tls: null }),
  (given: { email: string }) => deferred({ ...given, reply: null, untried: { code: 421, enhanced: '4.3.2' } }),
  (given: { email: string }) => bounced(given),
  (given: { email: string }) =>
    bounced({ ...given, reply: null, status: '5.1.2', report: 'in_1', host: null, tls: null })
]

interface History {
  request: Recorded<AnyFact>
  facts: Stored[]
}

function historyOf (chance: Chance, email: string): History {
  const kinds = ['to', 'cc', 'bcc'] as const
  const recipients = Array.from(
    { length: chance.int(1, 3) },
    (_, n) => ({ address: `n${n}@example.net`, name: chance.of([null, 'Ada', 'A, B']), kind: kinds[n]! })
  )
  const request = requested({ email, recipients, scheduledAt: chance.of([null, null, timeAt(chance.int(10, 900))]) })
  const made = Array.from({ length: chance.int(0, 25) }, (_, i) => {
    const n = chance.int(0, recipients.length - 1)
    return chance.of(HAPPENINGS)(
      {
        email,
        n,
        to: recipients[n]!.address,
        sequence: i + 1,
        attempt: chance.int(1, 4),
        machine: chance.next() < 0.5
      } as { email: string }
    )
  })
  // Two may be stored in one millisecond, and a fact may be stored long after it happened.
  let storedMs = Date.parse(request.time)
  const facts = recorded(made, 100).map(fact => ({ ...fact, storedMs: storedMs += chance.of([0, 1, 50]) }))
  return { request: recorded([request], 7)[0]!, facts }
}

const live = async (pool: Pool, id: string) => await ask(pool, getEmail({ account: ACCOUNT, id }))

/** As the API would send it. */
const plain = (answer: unknown) => JSON.parse(JSON.stringify(answer))

/** Lets a history happen; resolves to what the view said at each moment of it. */
async function happen (pool: Pool, { request, facts }: History, id: string) {
  await apply(pool, emails, [request])
  const moments = [{ atMs: Date.parse(request.fact.time) - 1000, answer: plain(await live(pool, id)) }]
  for (const [storedMs, together] of Map.groupBy(facts, fact => fact.storedMs)) {
    await apply(pool, emails, together)
    moments.push({ atMs: storedMs, answer: plain(await live(pool, id)) })
  }
  return moments
}

function scheduleIn (t: Test, asked: AskedRow, { request: { fact } }: History): string | null {
  const scheduledAt = fact.type === 'email.requested' ? fact.data.scheduledAt : null
  const found = firstSchedule(asked)
  if (found !== undefined) t.equal(found, scheduledAt)
  return scheduledAt
}

t.test('at any moment of a history it says what the view said then, and now what it says now', async t => {
  const pool = await freshPool(t)
  const chance = openChance(t)
  let moved = 0
  for (let round = 0; round < 25; round++) {
    const id = `em_r${round}`
    const seed = chance.int(0, 1e9)
    const history = historyOf(chanceOf(seed), id)
    const moments = await happen(pool, history, id)
    const asked = (await ask(pool, findAsked({ account: ACCOUNT, id })))!
    const scheduledAt = scheduleIn(t, asked, history)
    if (firstSchedule(asked) === undefined) moved++
    const byLog = askedRow(requestedIn(history.request)[0]!)
    for (const { atMs, answer } of [...moments, { atMs: Infinity, answer: plain(await live(pool, id)) }]) {
      t.same(plain(asOf(asked, scheduledAt, history.facts, atMs)), answer, `seed ${seed} at ${atMs}`)
      t.same(plain(asOf(byLog, scheduledAt, history.facts, atMs)), answer, `seed ${seed} at ${atMs}, without the view`)
    }
  }
  t.ok(moved > 0, 'some were moved for all their recipients')
})

t.test('what was stored later was not known, however early it happened', async t => {
  const pool = await freshPool(t)
  const request = requested({ email: 'em_late' })
  const early = delivered({ email: 'em_late' })
  await apply(pool, emails, recorded([request], 1))
  const asked = (await ask(pool, findAsked({ account: ACCOUNT, id: 'em_late' })))!
  const happenedMs = Date.parse(early.time)
  const facts = recorded([early], 9).map(fact => ({ ...fact, storedMs: happenedMs + 5000 }))
  t.equal(asOf(asked, null, facts, happenedMs + 4999).status, 'queued')
  t.equal(asOf(asked, null, facts, happenedMs + 5000).status, 'delivered')
})

t.test('what is erased is erased at every moment, and was not yet before it was; the rest is as it was', async t => {
  const pool = await freshPool(t)
  const chance = openChance(t)
  for (let round = 0; round < 12; round++) {
    const id = `em_e${round}`
    const seed = chance.int(0, 1e9)
    const history = historyOf(chanceOf(seed), id)
    const request = history.request.fact as EmailRequested
    const gone = chance.int(0, request.data.recipients.length - 1)
    const left = history.facts.filter(({ fact }) => (fact as RecipientFact).data.n !== gone)
    const past = history.facts.filter(fact => !left.includes(fact)).map(({ seq, storedMs, fact }) => ({
      seq,
      storedMs,
      fact: redact(withEvent(fact as RecipientFact), asIs)
    }))
    const redacted = {
      request: { ...history.request, fact: { ...request, data: requestWithout(request.data, [gone], asIs) } },
      facts: [...left, ...past.map(fact => ({ ...fact, subject: 'email.0.x' }))]
    }
    redacted.facts.sort((a, b) => a.seq - b.seq)
    const moments = await happen(pool, redacted, id)
    const lastMs = Math.max(Date.parse(request.time), ...history.facts.map(({ storedMs }) => storedMs))
    const erasure = erased({
      email: id,
      n: gone,
      past: past.map(({ storedMs, ...rest }) => ({ ...rest, storedAt: new Date(storedMs).toISOString() }))
    })
    const stored = recorded([erasure], 1000).map(fact => ({ ...fact, storedMs: lastMs + 10 }))
    await apply(pool, emails, stored)
    const asked = (await ask(pool, findAsked({ account: ACCOUNT, id })))!
    const scheduledAt = scheduleIn(t, asked, history)
    for (const { atMs, answer } of [...moments, { atMs: Infinity, answer: plain(await live(pool, id)) }]) {
      t.same(plain(asOf(asked, scheduledAt, [...left, ...stored], atMs)), answer, `seed ${seed} at ${atMs}`)
    }
  }
})

/** With an event like those of a running service, where the fact has one. */
function withEvent<F extends RecipientFact> (fact: F): F {
  return {
    ...fact,
    data: {
      ...fact.data,
      ...('event' in fact.data ? { event: JSON.stringify({ data: { from: 'news@example.com', tags: [] } }) } : {})
    }
  }
}

function erased (data: Pick<EmailErased['data'], 'email' | 'n' | 'past'>): EmailErased {
  const cause = {
    id: 'ev_erased',
    version: 1,
    time: timeAt(1e6),
    account: ACCOUNT,
    causation: null,
    correlation: 'test'
  }
  return {
    ...cause,
    type: 'email.erased',
    data: { ...data, request: 7, to: ERASED, sequence: data.past.length + 1, erasure: 'era_one' }
  }
}

t.test('an email of another account is not found, and without an account it is', async t => {
  const pool = await freshPool(t)
  await apply(pool, emails, recorded([requested({ email: 'em_other' }, 'acc_other')], 1))
  t.equal(await ask(pool, findAsked({ account: ACCOUNT, id: 'em_other' })), null)
  t.equal((await ask(pool, findAsked({ id: 'em_other' })))?.account, 'acc_other')
  await clear(pool, 'emails')
  t.equal(await ask(pool, findAsked({ id: 'em_other' })), null)
})
