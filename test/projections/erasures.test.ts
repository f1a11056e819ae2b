import t from 'tap'
import { emails } from '#projections/emails/project.ts'
import { getEmail } from '#projections/emails/queries.ts'
import { overdueRecipients } from '#projections/emails/queue.ts'
import { erasures } from '#projections/erasures/project.ts'
import {
  getErasure,
  listErasures,
  parseCursor,
  pendingErasure,
  pendingErasures,
  receiptOf
} from '#projections/erasures/queries.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { ERASED } from '#streams/address.ts'
import { isEngagement, redact, requestWithout } from '#streams/email/erase.ts'
import type { EmailErased, EmailRecorded, EmailRequested, EngagementFact, RecipientFact } from '#streams/email/facts.ts'
import { NOTHING_ERASED } from '#streams/erasure/state.ts'
import { emailPartitionOf, subjects } from '#streams/subjects.ts'
import { ask } from '#src/postgres/query.ts'
import type { Pool } from '#src/postgres/pool.ts'
import {
  asIs,
  ACCOUNT,
  attempted,
  bounced,
  canceled,
  clicked,
  deferred,
  delivered,
  inDoubt,
  opened,
  recorded,
  requested,
  rescheduled,
  timeAt
} from '../support/facts.ts'
import { LONG } from '../support/long.ts'
import { openChance, type Chance } from '../support/random.ts'
import { allRows, apply, clear, cut, freshPool, shuffled } from './view.ts'

const DAY_MS = 86_400_000
const envelope = { version: 1, account: ACCOUNT, causation: null, correlation: 'test' }
let made = 0
const id = () => `ev_era${++made}`

const MAKERS = [
  attempted,
  delivered,
  bounced,
  inDoubt,
  canceled,
  rescheduled,
  opened,
  clicked,
  (given: { email: string, to?: string }) =>
    deferred({ ...given, reply: null, error: `${given.to} is not here`, host: 'mx.example.net' })
]

interface World {
  /** All there ever was, in the order of each stream. */
  ever: Array<Recorded<AnyFact>>
  /** What the erasure has left of it. */
  left: Array<Recorded<AnyFact>>
}

/** An email of one to three, whose first few are erased: the log as a live projector saw it, and as it is then. */
function worldOf (chance: Chance, email: string): World {
  const kinds = ['to', 'cc', 'bcc'] as const
  const recipients = Array.from(
    { length: chance.int(1, 3) },
    (_, n) => ({ address: `n${n}@example.net`, name: chance.of([null, 'Ada']), kind: kinds[n]! })
  )
  const request = requested({
    email,
    recipients,
    subject: 'Said',
    metadata: { who: 'ada' },
    scheduledAt: chance.of([null, timeAt(900)])
  })
  const facts = recorded(
    Array.from({ length: chance.int(1, 20) }, (_, i) => {
      const n = chance.int(0, recipients.length - 1)
      return chance.of(MAKERS)(
        { email, n, to: recipients[n]!.address, request: 5, sequence: i + 1, attempt: chance.int(1, 3) } as {
          email: string
        }
      ) as AnyFact
    }),
    100
  )
  const ns = recipients.map((_recipient, n) => n).slice(0, chance.int(1, recipients.length))
  const others = ns.length < recipients.length
  const record = recordOf(request, request.data, 5, 90, subjects.record(emailPartitionOf(email)))
  const ends = ns.flatMap((n, i) => endsOf(email, n, facts, 200 + 2 * i))
  const again = recordOf(
    request,
    requestWithout(request.data, ns, asIs),
    others ? 60 : 5,
    300,
    subjects.recordReplay(emailPartitionOf(email))
  )
  const rest = others
    ? [{
      fact: { ...request, data: requestWithout(request.data, ns, asIs) },
      seq: 60,
      subject: subjects.request(ACCOUNT, email)
    }]
    : []
  const stays = facts.filter(({ fact }) => !ns.includes((fact as RecipientFact).data.n))
  const asked = [{ fact: request, seq: 5, subject: subjects.request(ACCOUNT, email) }]
  return { ever: [...asked, ...rest, record, ...facts, ...ends, again], left: [...rest, ...stays, ...ends, again] }
}

function recordOf (
  { id: causation, time }: EmailRequested,
  data: EmailRequested['data'],
  request: number,
  seq: number,
  subject: string
): Recorded<AnyFact> {
  const { content: _content, ...asked } = data
  const fact = {
    ...envelope,
    id: id(),
    type: 'email.recorded',
    time: timeAt(990),
    causation,
    data: { ...asked, request, requestedAt: time }
  } as EmailRecorded
  return { fact, seq, subject }
}

function endsOf (email: string, n: number, facts: Array<Recorded<AnyFact>>, seq: number): Array<Recorded<AnyFact>> {
  const of = facts.filter(({ fact }) => (fact as RecipientFact).data.n === n) as Array<
    Recorded<RecipientFact | EngagementFact>
  >
  const past = of.map(({ fact, seq }) => ({ seq, storedAt: timeAt(seq), fact: redact(fact, asIs) as unknown }))
  const endWith = (past: EmailErased['data']['past']) =>
    ({
      ...envelope,
      id: id(),
      type: 'email.erased',
      time: timeAt(991),
      data: { email, n, request: 5, to: ERASED, sequence: of.length + 1, erasure: 'era_1', past }
    }) as EmailErased
  return [{ fact: endWith(past), seq, subject: subjects.recipient(ACCOUNT, email, n) }, {
    fact: endWith([]),
    seq: seq + 1,
    subject: subjects.engagement(ACCOUNT, email, n)
  }]
}

async function rowsAfter (
  pool: Pool,
  facts: Array<Recorded<AnyFact>>,
  chance: Chance
): Promise<Record<string, string[]>> {
  await clear(pool, 'emails')
  for (const batch of cut(facts, 6, () => chance.next())) await apply(pool, emails, batch)
  return await allRows(pool, 'emails')
}

t.test('rows that lived through an erasure are those of the log after it, in any order, twice', async t => {
  const pool = await freshPool(t)
  const chance = openChance(t)
  for (let round = 0; round < (LONG ? 40 : 10); round++) {
    const { ever, left } = worldOf(chance, `em_e${round}`)
    const rebuilt = await rowsAfter(pool, left, chance)
    t.notOk(JSON.stringify(rebuilt).includes('n0@example.net'), 'of the first nothing is left')
    t.same(await rowsAfter(pool, ever, chance), rebuilt, 'as it came')
    t.same(
      await rowsAfter(pool, shuffled([...ever, ...ever], () => chance.next()), chance),
      rebuilt,
      'in any order, twice'
    )
    t.same(await rowsAfter(pool, shuffled([...ever, ...left], () => chance.next()), chance), rebuilt)
  }
})

t.test('an email of which somebody is erased shows the others, and what became of all', async t => {
  const pool = await freshPool(t)
  const request = requested({
    email: 'em_one',
    recipients: [{ address: 'ada@example.net', name: 'Ada', kind: 'to' }, {
      address: 'bob@example.net',
      name: null,
      kind: 'to'
    }]
  })
  const facts = recorded([attempted({ email: 'em_one' }), inDoubt({ email: 'em_one' })] as AnyFact[], 10)
  t.ok(facts.every(({ fact }) => !isEngagement(fact as RecipientFact)))
  await apply(pool, emails, [{ fact: request, seq: 5, subject: subjects.request(ACCOUNT, 'em_one') }, ...facts])
  t.equal((await ask(pool, overdueRecipients({ limit: 10, graceS: -1e9, after: null }))).length, 1)
  await apply(pool, emails, endsOf('em_one', 0, facts, 20))
  const shown = await ask(pool, getEmail({ account: ACCOUNT, id: 'em_one' }))
  t.match(shown?.recipients, [{ address: ERASED, name: null, status: 'in_doubt', next_attempt_at: null }, {
    address: 'bob@example.net',
    status: 'queued'
  }])
  t.match(shown?.timeline.map(({ type }) => type), [
    'email.requested',
    'email.attempted',
    'email.in_doubt',
    'email.erased'
  ])
  t.equal(
    (await ask(pool, overdueRecipients({ limit: 10, graceS: -1e9, after: null }))).length,
    0,
    'nobody waits for anything'
  )
})

const HASH = 'ab'.repeat(32)

/** Facts of one erasure as they lie in CONTROL. */
function erasureFacts (erasure: string, atS: number, steps: number, done: boolean): Array<Recorded<AnyFact>> {
  const shared = { erasure, hash: HASH }
  const told = { ...shared, requestedAt: timeAt(atS) }
  const counts = { ...NOTHING_ERASED, emails: 1, messages: 2 }
  const facts = [
    { type: 'erasure.requested', time: timeAt(atS), data: { ...shared, address: 'sealed' } },
    ...Array.from(
      { length: steps },
      (_, i) => ({
        type: 'erasure.advanced',
        time: timeAt(atS + 1),
        data: { ...told, counts, deletes: [{ stream: 'EMAILS', seqs: [i + 1] }] }
      })
    ),
    ...(done
      ? [{
        type: 'erasure.completed',
        time: timeAt(atS + 9),
        data: { ...told, counts: { ...counts, emails: steps, messages: 2 * steps } }
      }]
      : [])
  ]
  return facts.map((fact, i) => ({
    fact: { ...envelope, id: id(), ...fact } as AnyFact,
    seq: atS * 10 + i,
    subject: subjects.erasure(ACCOUNT, erasure)
  }))
}

t.test('erasures, how far they are, and their receipts', async t => {
  const pool = await freshPool(t)
  const chance = openChance(t)
  const facts = [
    ...erasureFacts('era_a', 10, 3, true),
    ...erasureFacts('era_b', 20, 2, false),
    ...erasureFacts('era_c', 30, 0, false)
  ]
  for (const batch of cut(shuffled([...facts, ...facts], () => chance.next()), 3, () => chance.next())) {
    await apply(pool, erasures, batch)
  }
  const options = { account: ACCOUNT, kept: { contentMs: 30 * DAY_MS, factsMs: 90 * DAY_MS } }
  const first = await ask(pool, listErasures({ ...options, limit: 2, cursor: null }))
  t.match(first, {
    data: [{ id: 'era_c', counts: NOTHING_ERASED }, {
      id: 'era_b',
      status: 'pending',
      counts: { emails: 2, messages: 4 },
      remains: []
    }],
    has_more: true
  })
  const second = await ask(pool, listErasures({ ...options, limit: 2, cursor: parseCursor(first.next_cursor!) }))
  t.match(second, {
    data: [{
      id: 'era_a',
      status: 'completed',
      requested_at: timeAt(10),
      completed_at: timeAt(19),
      counts: { emails: 3, messages: 6 }
    }],
    has_more: false,
    next_cursor: null
  })
  t.equal(await ask(pool, getErasure({ ...options, account: 'acc_other', id: 'era_a' })), null)
  t.match(await ask(pool, getErasure({ ...options, id: 'era_b' })), { id: 'era_b', address_hash: HASH })
  t.match(await ask(pool, pendingErasure({ ...options, hashes: ['ef'.repeat(32), HASH] })), { id: 'era_b' })
  t.equal(await ask(pool, pendingErasure({ ...options, hashes: ['cd'.repeat(32)] })), null)
  t.same(await ask(pool, pendingErasures(10)), [{ account: ACCOUNT, id: 'era_b', requestedAt: new Date(timeAt(20)) }, {
    account: ACCOUNT,
    id: 'era_c',
    requestedAt: new Date(timeAt(30))
  }])
  for (
    const text of [
      '',
      'x',
      ...['2026-02-30', '0000-01-01'].map(day => Buffer.from(`${day}T00:00:00.000Z era_a`).toString('base64url'))
    ]
  ) t.equal(parseCursor(text), null)
})

t.test('without its first fact, which is deleted in the end, an erasure is the same rows', async t => {
  const pool = await freshPool(t)
  const facts = erasureFacts('era_a', 10, 2, true)
  const rows = async () =>
    (await pool.query(
      'select to_jsonb(e) as e, (select jsonb_agg(s order by seq) from erasure_steps s) as steps from erasures e'
    )).rows
  await apply(pool, erasures, facts)
  const whole = await rows()
  await pool.query('truncate erasures, erasure_steps')
  await apply(pool, erasures, facts.slice(1))
  t.same(await rows(), whole)
})

t.test('what remains is said of what is done, with when it is gone', t => {
  const standing = {
    id: 'era_a',
    hash: HASH,
    requestedAt: timeAt(1),
    completedAt: '2026-11-22T00:00:00.000Z',
    counts: NOTHING_ERASED
  }
  const kept = { contentMs: 5 * DAY_MS, factsMs: 90 * DAY_MS }
  const { remains, looked_through: looked } = receiptOf(standing, kept)
  t.match(looked[0], /tags and metadata/)
  const days = remains.map((
    { until }
  ) => (until === null ? null : (Date.parse(until) - Date.parse(standing.completedAt)) / DAY_MS))
  t.same(days, [5, 90, 90, null, null, null, 2, 1, 7, 30, null, null, null, null])
  t.ok(
    remains.every(({ what, until }) => until !== null || /until/.test(what)),
    'where no clock decides, it says what does'
  )
  t.match(receiptOf({ ...standing, completedAt: null }, kept), { remains: [], looked_through: [] })
  t.end()
})
