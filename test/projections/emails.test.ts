import t from 'tap'
import { emails } from '#projections/emails/project.ts'
import { getEmail } from '#projections/emails/queries.ts'
import { overdueRecipients, unheardEmails, type UnheardEmail } from '#projections/emails/queue.ts'
import { rollUp } from '#projections/emails/status.ts'
import { sql } from '#projections/define.ts'
import { EmailRecorded } from '#streams/email/facts.ts'
import { causedBy, stamp } from '#src/actions/fact-log.ts'
import { ask } from '#src/postgres/query.ts'
import {
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
import { allRows, apply, clear, cut, freshPool, randomOf, shuffled } from './view.ts'

const record = (id: string, account = ACCOUNT) => getEmail({ account, id })

t.test('an email that was asked for and delivered', async t => {
  const pool = await freshPool(t)
  const request = requested({
    email: 'em_one',
    from: { address: 'news@example.com', name: 'News, Inc.' },
    recipients: [{ address: 'ada@example.net', name: 'Ada', kind: 'to' }],
    subject: 'Hello',
    tags: ['welcome', 'a "quoted" \\ tag'],
    metadata: { order: 7, paid: true, note: null, name: 'Ada' }
  })
  const claim = attempted({ email: 'em_one', leaseUntil: timeAt(1000) })
  const plain = { address: '192.0.2.1', tls: null, plain: 'broken' } as const
  const outcome = delivered({ email: 'em_one', sequence: 2, ms: 81, ...plain })
  await apply(pool, emails, recorded([request], 5))
  t.match(await ask(pool, record('em_one')), {
    status: 'queued',
    recipients: [{ status: 'queued', attempts: 0, last_response: null }]
  })
  await apply(pool, emails, recorded([claim], 11))
  t.match(await ask(pool, record('em_one')), {
    status: 'sending',
    recipients: [{ status: 'sending', attempts: 1, attempted_at: claim.time }]
  })
  await apply(pool, emails, recorded([outcome], 12))

  const email = await ask(pool, record('em_one'))
  t.match(email, {
    id: 'em_one',
    email_id: 'em_one',
    from: '"News, Inc." <news@example.com>',
    to: ['Ada <ada@example.net>'],
    cc: [],
    subject: 'Hello',
    status: 'delivered',
    tags: ['welcome', 'a "quoted" \\ tag'],
    metadata: { order: 7, paid: true, note: null, name: 'Ada' },
    created_at: request.time
  })
  t.match(email?.recipients, [{
    n: 0,
    address: 'ada@example.net',
    name: 'Ada',
    kind: 'to',
    status: 'delivered',
    attempts: 1,
    delivered_at: outcome.time,
    bounced_at: null,
    next_attempt_at: null,
    last_response: {
      smtp_code: 250,
      enhanced_code: '2.0.0',
      response: '250 2.0.0 ok',
      host: 'mx.example.net',
      error: null
    }
  }])
  t.match(email?.timeline.map(({ type }) => type), ['email.requested', 'email.attempted', 'email.delivered'])
  t.match(email?.timeline[2], {
    id: outcome.id,
    time: outcome.time,
    n: 0,
    recipient: 'ada@example.net',
    sequence: 2,
    smtp_code: 250,
    response: '250 2.0.0 ok',
    ms: 81,
    ...plain
  })
  t.notOk(JSON.stringify(email).includes('<p>'), 'no content of mail')
  const { rows } = await pool.query("select data from timeline where data ? 'event'")
  t.equal(rows.length, 0, 'the bytes of the webhook stay in the log')
})

t.test('an email of another account is not there', async t => {
  const pool = await freshPool(t)
  await apply(pool, emails, recorded([requested({ email: 'em_one' })]))
  t.equal(await ask(pool, record('em_one', 'acc_other')), null)
  t.equal(await ask(pool, record('em_none')), null)
})

t.test('facts that come before their request wait for it', async t => {
  const pool = await freshPool(t)
  await apply(pool, emails, recorded([attempted({ email: 'em_one' }), bounced({ email: 'em_one' })]))
  t.equal(await ask(pool, record('em_one')), null)
  await apply(pool, emails, recorded([requested({ email: 'em_one' })]))
  t.match(await ask(pool, record('em_one')), {
    status: 'bounced',
    recipients: [{ kind: 'to', status: 'bounced' }],
    timeline: { length: 3 }
  })
})

t.test('the status of a recipient follows the last fact of its subject', async t => {
  const cases = [
    { facts: [attempted, deferred], status: 'deferred' },
    { facts: [attempted, deferred, attempted], status: 'sending' },
    { facts: [attempted, inDoubt], status: 'in_doubt' },
    { facts: [attempted, inDoubt, delivered], status: 'delivered' },
    { facts: [attempted, delivered, bounced], status: 'bounced' },
    { facts: [deferred, failed], status: 'failed' }
  ]
  const pool = await freshPool(t)
  for (const [i, { facts, status }] of cases.entries()) {
    const email = `em_${i}`
    await apply(pool, emails, recorded([requested({ email })], i + 1))
    await apply(pool, emails, recorded(facts.map(make => make({ email })), 100 * (i + 1)))
    t.match(await ask(pool, record(email)), { status, recipients: [{ status }] }, status)
  }
})

t.test('mail that was not tried has no attempt, and the codes that another mail got', async t => {
  const pool = await freshPool(t)
  await apply(pool, emails, recorded([requested({ email: 'em_one' })]))
  const untried = { code: 421, enhanced: '4.3.2' }
  await apply(pool, emails, recorded([deferred({ email: 'em_one', reply: null, error: 'Not tried', untried })], 2))
  const codes = { smtp_code: 421, enhanced_code: '4.3.2', response: null, error: 'Not tried' }
  const found = await ask(pool, record('em_one'))
  t.match(found, {
    recipients: [{ status: 'deferred', attempts: 0, last_response: codes }],
    timeline: [{}, { ...codes, untried: true }]
  })
  t.notOk('attempt' in found!.timeline[1]!)
})

/** Three emails, five recipients, every kind of fact. */
function story () {
  const three = ['ada', 'ben', 'cat'].map(name => ({ address: `${name}@example.net`, name: null, kind: 'to' as const }))
  const requests = recorded([
    requested({ email: 'em_a', recipients: three, tags: ['x'] }),
    requested({ email: 'em_b', metadata: { k: 'v' } }),
    requested({ email: 'em_c' }),
    requested({
      email: 'em_d',
      scheduledAt: timeAt(500),
      template: { id: 'tpl_a', version: 2 },
      headers: [{ name: 'X-A', value: 'b' }]
    }),
    requested({ email: 'em_e' })
  ])
  const outcomes = recorded([
    attempted({ email: 'em_a', n: 0, to: 'ada@example.net' }),
    attempted({ email: 'em_a', n: 1, to: 'ben@example.net' }),
    attempted({ email: 'em_b' }),
    delivered({ email: 'em_a', n: 0, to: 'ada@example.net' }),
    deferred({ email: 'em_a', n: 1, to: 'ben@example.net' }),
    deferred({
      email: 'em_a',
      n: 2,
      to: 'cat@example.net',
      reply: null,
      host: null,
      tls: null,
      error: 'no answer',
      stage: 'connect'
    }),
    inDoubt({ email: 'em_b' }),
    attempted({ email: 'em_a', n: 1, to: 'ben@example.net', attempt: 2 }),
    bounced({ email: 'em_a', n: 1, to: 'ben@example.net', attempt: 2 }),
    attempted({ email: 'em_b', attempt: 2 }),
    delivered({ email: 'em_b', attempt: 2 }),
    attempted({ email: 'em_c' }),
    deferred({ email: 'em_c' }),
    failed({ email: 'em_a', n: 2, to: 'cat@example.net', attempt: 1 }),
    inDoubt({ email: 'em_c', held: true, nextAttemptAt: null }),
    rescheduled({ email: 'em_d' }),
    canceled({ email: 'em_d' }),
    suppressed({ email: 'em_e' }),
    retryRequested({ email: 'em_e' }),
    opened({ email: 'em_a' }),
    clicked({ email: 'em_a', n: 1, to: 'ben@example.net' }),
    opened({ email: 'em_a' })
  ])
  return [...requests, ...outcomes]
}

t.test('facts in any order, in any batches, and all of them twice give the same rows', async t => {
  const pool = await freshPool(t)
  const facts = story()
  for (const one of facts) await apply(pool, emails, [one])
  const expected = await allRows(pool, 'emails')
  t.equal(expected.timeline?.length, 22)
  t.match(await ask(pool, record('em_a')), { status: 'partial' })

  await apply(pool, emails, facts)
  t.strictSame(await allRows(pool, 'emails'), expected, 'once more, in one batch')
  for (let seed = 1; seed <= 12; seed++) {
    const random = randomOf(seed)
    await clear(pool, 'emails')
    for (const batch of cut(shuffled([...facts, ...facts], random), 9, random)) await apply(pool, emails, batch)
    t.strictSame(await allRows(pool, 'emails'), expected, `seed ${seed}`)
  }
})

t.test('a record that comes in one batch with a mark takes nothing of it away', async t => {
  const pool = await freshPool(t)
  const request = requested({ email: 'em_1' })
  const { content: _content, ...asked } = request.data
  await apply(pool, emails, [{ fact: request, seq: 1, subject: 'request.0.acc_test' }])
  await apply(pool, emails, [
    {
      fact: stamp(
        EmailRecorded,
        causedBy(request),
        { ...asked, request: 1, requestedAt: request.time },
        Date.parse(request.time)
      ) as EmailRecorded,
      seq: 1,
      subject: 'email.0.record'
    },
    { fact: opened({ email: 'em_1' }), seq: 2, subject: 'email.0.acc_test.em_1.0.engagement' }
  ])
  t.strictSame((await pool.query('select opened_at is not null as opened, kind from recipients')).rows, [{
    opened: true,
    kind: 'to'
  }])
  t.strictSame((await pool.query('select events from email_states')).rows, [{ events: ['email.opened'] }])
})

t.test('marks have their first times and are no status, also when they come before everything else', async t => {
  const pool = await freshPool(t)
  const email = 'em_marks'
  const [request, first, click, again, claim, complaint, outcome, gone] = [
    requested({ email }),
    opened({ email, machine: true }),
    clicked({ email }),
    opened({ email }),
    attempted({ email }),
    complained({ email }),
    delivered({ email }),
    unsubscribed({ email })
  ]
  await apply(pool, emails, recorded([first!, click!], 20))
  await apply(pool, emails, recorded([request!], 3))
  t.match(await ask(pool, record(email)), {
    status: 'queued',
    recipients: [{ status: 'queued', opened_at: first!.time, clicked_at: click!.time, complained_at: null }]
  })
  await apply(pool, emails, recorded([again!, claim!, complaint!, outcome!, gone!], 22))
  const row = await ask(pool, record(email))
  t.match(row, {
    status: 'delivered',
    recipients: [{ opened_at: first!.time, complained_at: complaint!.time, unsubscribed_at: gone!.time, attempts: 1 }]
  })
  t.match(
    row?.timeline.filter(({ type }) => type !== 'email.attempted').map(({ type, machine, url, feedback, by }) => ({
      type,
      machine,
      url,
      feedback,
      by
    })),
    [
      { type: 'email.requested' },
      { type: 'email.opened', machine: true },
      { type: 'email.clicked', url: 'https://shop.example/', machine: false },
      { type: 'email.opened', machine: false },
      { type: 'email.complained', feedback: 'abuse' },
      { type: 'email.delivered' },
      { type: 'email.unsubscribed', by: 'one-click' }
    ]
  )
  const { rows } = await pool.query('select events from email_states where id = $1', [email])
  t.same(rows, [{
    events: ['email.delivered', 'email.opened', 'email.clicked', 'email.complained', 'email.unsubscribed']
  }])
})

t.test('a report after the delivery is a bounce, with its own words', async t => {
  const pool = await freshPool(t)
  const email = 'em_report'
  await apply(pool, emails, recorded([requested({ email })], 1))
  await apply(
    pool,
    emails,
    recorded([
      attempted({ email }),
      delivered({ email }),
      bounced({ email, reply: null, status: '5.2.2', error: 'mailbox is full', class: 'mailboxfull', report: 'in_1' })
    ], 1)
  )
  const row = await ask(pool, record(email))
  t.match(row, {
    status: 'bounced',
    recipients: [{
      last_response: { smtp_code: null, enhanced_code: '5.2.2', response: null, error: 'mailbox is full' }
    }]
  })
  t.match(row?.timeline.at(-1), {
    type: 'email.bounced',
    status: '5.2.2',
    error: 'mailbox is full',
    class: 'mailboxfull',
    report: 'in_1'
  })
})

t.test("an email's status is the roll-up of its recipients'", async t => {
  const pool = await freshPool(t)
  const table: Array<[string[], string]> = [
    [['delivered'], 'delivered'],
    [['delivered', 'delivered'], 'delivered'],
    [['queued', 'queued'], 'queued'],
    [['in_doubt', 'in_doubt'], 'in_doubt'],
    [['delivered', 'bounced'], 'partial'],
    [['suppressed', 'canceled', 'failed'], 'partial'],
    [['delivered', 'sending', 'deferred'], 'sending'],
    [['delivered', 'queued', 'deferred'], 'queued'],
    [['scheduled', 'deferred'], 'scheduled'],
    [['delivered', 'deferred', 'in_doubt'], 'deferred'],
    [['delivered', 'in_doubt', 'bounced'], 'in_doubt']
  ]
  for (const [statuses, expected] of table) {
    const query = {
      sql: sql`select ${rollUp} as status from unnest(${statuses}::text[]) as recipients (status)`,
      read: ([row]: readonly Record<string, unknown>[]) => row?.status
    }
    t.equal(await ask(pool, query), expected, statuses.join(' + '))
  }
})

t.test('what Postgres cannot store does not stop the view', async t => {
  const pool = await freshPool(t)
  await apply(
    pool,
    emails,
    recorded([
      requested({
        email: 'em_one',
        subject: 'nul \0 and \ud800 half',
        tags: ['\0'],
        metadata: { 'k\0': 'v\udfff', '\\u0000': '\\u0000' }
      }),
      bounced({ email: 'em_one', reply: { code: 550, enhanced: null, text: '550 \0 no' } })
    ])
  )
  t.match(await ask(pool, record('em_one')), {
    subject: 'nul \uFFFD and \uFFFD half',
    tags: ['\uFFFD'],
    metadata: { 'k\uFFFD': 'v\uFFFD', '\\u0000': '\\u0000' },
    recipients: [{ last_response: { response: '550 \uFFFD no' } }]
  })
})

t.test('recipients are overdue when their time has passed and nothing was heard', async t => {
  const pool = await freshPool(t)
  const past = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString()
  await apply(
    pool,
    emails,
    recorded([
      deferred({ email: 'em_deferred', n: 2, request: 41, nextAttemptAt: past(120) }),
      deferred({ email: 'em_soon', nextAttemptAt: past(30) }),
      inDoubt({ email: 'em_doubt', nextAttemptAt: past(90) }),
      inDoubt({ email: 'em_held', held: true, nextAttemptAt: null }),
      attempted({ email: 'em_first', leaseUntil: past(200) }),
      attempted({ email: 'em_dead', due: true, leaseUntil: past(200) }),
      requested({ email: 'em_scheduled', scheduledAt: past(80) }),
      requested({ email: 'em_called_off', scheduledAt: past(80) }),
      canceled({ email: 'em_called_off' }),
      retryRequested({ email: 'em_again' }),
      deferred({ email: 'em_done', nextAttemptAt: past(300) }),
      delivered({ email: 'em_done', attempt: 2 })
    ])
  )
  const overdue = await ask(pool, overdueRecipients({ limit: 10, graceS: 60, after: null }))
  t.strictSame(overdue.map(({ email }) => email), ['em_again', 'em_dead', 'em_deferred', 'em_doubt', 'em_scheduled'])
  t.match(overdue[2], { account: ACCOUNT, email: 'em_deferred', n: 2, requestSeq: 41 })
  t.ok(overdue.every(({ wakeMs }) => wakeMs < Date.now() - 60_000))
  const first = await ask(pool, overdueRecipients({ limit: 2, graceS: 60, after: null }))
  t.strictSame(
    [...first, ...await ask(pool, overdueRecipients({ limit: 10, graceS: 60, after: first[1]! }))],
    overdue,
    'page after page'
  )
})

t.test('recipients without any fact are found among the emails on their way, page after page', async t => {
  const pool = await freshPool(t)
  const two = [{ address: 'a@example.net', name: null, kind: 'to' as const }, {
    address: 'b@example.net',
    name: null,
    kind: 'to' as const
  }]
  await apply(
    pool,
    emails,
    recorded([
      requested({ email: 'em_other' }, 'acc_other'),
      requested({ email: 'em_half', recipients: two }),
      delivered({ email: 'em_half', n: 0 }),
      requested({ email: 'em_quiet' }),
      requested({ email: 'em_begun' }),
      attempted({ email: 'em_begun' }),
      requested({ email: 'em_opened' }),
      opened({ email: 'em_opened' }),
      requested({ email: 'em_done' }),
      delivered({ email: 'em_done' }),
      requested({ email: 'em_later', scheduledAt: timeAt(90) }),
      requested({ email: 'em_again' }),
      retryRequested({ email: 'em_again' })
    ])
  )
  const found = await ask(pool, unheardEmails({ limit: 10, after: null }))
  t.strictSame(found.map(({ email, ns }) => [email, ...ns]), [
    ['em_other', 0],
    ['em_half', 1],
    ['em_quiet', 0],
    ['em_begun'],
    ['em_opened', 0],
    ['em_again']
  ])
  t.strictSame(found.slice(0, 3).map(({ account, requestSeq }) => [account, requestSeq]), [['acc_other', 1], [
    ACCOUNT,
    2
  ], [ACCOUNT, 4]])
  const paged: UnheardEmail[] = []
  for (let after: UnheardEmail | null = null;;) {
    const page: UnheardEmail[] = await ask(pool, unheardEmails({ limit: 1, after }))
    if (page.length === 0) break
    paged.push(...page)
    after = page[0]!
  }
  t.strictSame(paged, found)
})
