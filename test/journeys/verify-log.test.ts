import { headers as newHeaders } from 'nats'
import t, { type Test } from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import { ErasureAdvanced } from '#streams/erasure/facts.ts'
import { NOTHING_ERASED } from '#streams/erasure/state.ts'
import { EmailMoved, RequestClaimed, type EmailDelivered } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { UsageClosed } from '#streams/usage/facts.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { newId } from '#src/base/id.ts'
import { api } from '#src/nats/api.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { lastSequence } from '#src/nats/get.ts'
import { readFacts } from '#src/nats/range.ts'
import { verifyLog, type LogVerification } from '#src/workers/projector/verify/log.ts'
import { deferred, deliveryRequested } from '../support/facts.ts'
import { openLived } from '../support/lived.ts'
import { until } from '../support/wait.ts'

const { app, bus, pool, emails } = await openLived(t)
const blobs = await openBlobs(bus)
const { big, delivered: deliveredEmail } = emails

const prove = async (laterMs = 0): Promise<LogVerification> =>
  await verifyLog({
    bus,
    pool,
    nowMs: () => Date.now() + laterMs,
    signal: new AbortController().signal,
    onProgress: () => {}
  })
const CAUSE = { account: FIRST_ACCOUNT, correlation: 'test', causation: null }
const usage = (month: string, cause: Partial<typeof CAUSE> | { causation: string } = {}, id?: string) =>
  stamp(UsageClosed, { ...CAUSE, ...cause }, { month, domains: [] }, Date.now(), id)

/** What the log knew before the test in hand. */
let before = new Set<string>()
const counts = ({ found }: LogVerification) => found.map(({ kind, count }) => `${kind} ${count}`).join(', ')

/** Puts a message behind Jetpost's back; resolves to its sequence. */
async function put (
  subject: string,
  body: object | string,
  { id = typeof body === 'string' ? null : (body as AnyFact).id, ttl }: { id?: string | null, ttl?: string } = {}
): Promise<number> {
  const headers = newHeaders()
  if (id !== null) headers.set('Nats-Msg-Id', id)
  if (ttl !== undefined) headers.set('Nats-TTL', ttl)
  return (await bus.js.publish(subject, typeof body === 'string' ? body : JSON.stringify(body), { headers })).seq
}

/** The last finding of a kind that this report has and the one before had not. */
function example ({ found }: LogVerification, kind: string): { where: string, message: string } | undefined {
  return found.find(each => each.kind === kind)?.examples.findLast(({ where }) => !before.has(`${kind} ${where}`))
}

/** Proves again: one finding more of this kind, there, and nothing else. */
async function finds (t: Test, kind: string, where: string, message: RegExp, laterMs = 0): Promise<void> {
  const had = new Map(known.map(({ kind, count }) => [kind, count]))
  const report = await prove(laterMs)
  t.match(example(report, kind), { where, message })
  for (const { kind: other, count } of report.found) {
    t.equal(count - (had.get(other) ?? 0), other === kind ? 1 : 0, `${other}: ${counts(report)}`)
  }
  remember(report)
}

let known: LogVerification['found'] = []
function remember (report: LogVerification): void {
  known = report.found
  before = new Set(known.flatMap(({ kind, examples }) => examples.map(({ where }) => `${kind} ${where}`)))
}

async function facts (stream: string): Promise<Array<{ seq: number, subject: string, fact: AnyFact }>> {
  const found = []
  for (let seq = 1; seq <= await lastSequence(bus, stream); seq++) {
    const message = await api<{ message: { subject: string, data: string } }>(bus, `STREAM.MSG.GET.${stream}`, { seq })
      .catch(() => null)
    if (message !== null) {
      found.push({
        seq,
        subject: message.message.subject,
        fact: JSON.parse(Buffer.from(message.message.data, 'base64').toString()) as AnyFact
      })
    }
  }
  return found
}

t.test('a log that nobody has touched is clean, while mail keeps coming', async t => {
  const more = Promise.all(Array.from({ length: 40 }, () => app.send()))
  const report = await prove()
  await more
  t.strictSame(report.found, [])
  t.match(
    report.streams,
    ['REQUESTS', 'EMAILS', 'INBOUND', 'CONTROL', 'WEBHOOKS'].map(stream => ({
      stream,
      first: 1,
      gone: { aged: 0, expired: 0, erased: 0 }
    }))
  )
  t.ok(report.streams.every(({ facts, last }) => facts === last && facts > 0))
})

t.test('two cannot be at it', async t => {
  const [one, other] = await Promise.allSettled([prove(), prove()])
  t.same([one.status, other.status].sort(), ['fulfilled', 'rejected'])
})

t.test("a message that was deleted behind Jetpost's back is a gap; what points at it adds nothing", async t => {
  const [, delivered] = await readFacts(bus, 'EMAILS', subjects.recipient(FIRST_ACCOUNT, deliveredEmail, 0))
  t.equal(delivered!.fact.type, 'email.delivered')
  await api(bus, 'STREAM.MSG.DELETE.EMAILS', { seq: delivered!.seq })
  await finds(t, 'gap', `EMAILS ${delivered!.seq}`, /^a message is gone, stored between .*Z and .*Z$/)
})

t.test('what cannot be read', async t => {
  const seq = await put('control.acc_first.key.key_x', '{"type":"email.danced"}')
  await finds(t, 'unreadable', `CONTROL ${seq}`, /unknown fact type "email.danced"/)
})

t.test('a fact whose cause is nowhere, unless it would be older than what is kept', async t => {
  const old = usage('2020-01', { causation: newId('ev', Date.now() - 31 * 86_400_000) })
  await put(subjects.usage(FIRST_ACCOUNT, '2020-01'), old)
  const cause = newId('ev', Date.now())
  const seq = await put(subjects.usage(FIRST_ACCOUNT, '2020-02'), usage('2020-02', { causation: cause }))
  await finds(t, 'cause', `CONTROL ${seq}`, new RegExp(cause))
})

t.test('an id that two facts have', async t => {
  const [first] = await facts('REQUESTS')
  const seq = await put(subjects.usage(FIRST_ACCOUNT, '2020-03'), usage('2020-03', {}, first!.fact.id))
  await finds(t, 'duplicate', `REQUESTS ${first!.seq}`, new RegExp(`CONTROL ${seq}$`))
})

t.test('a message that has another id than its fact', async t => {
  const seq = await put(subjects.usage(FIRST_ACCOUNT, '2020-04'), usage('2020-04'), { id: 'ev_another' })
  await finds(t, 'id', `CONTROL ${seq}`, /has the id ev_another$/)
})

t.test('a fact on a subject that is not its own', async t => {
  const seq = await put(subjects.usage(FIRST_ACCOUNT, '2020-05'), usage('2020-06'))
  await finds(
    t,
    'subject',
    `CONTROL ${seq}`,
    /^usage.closed is on usage.acc_first.2020-05 and belongs on usage.acc_first.2020-06$/
  )
})

t.test('a fact whose request is at the sequence of another', async t => {
  const [one, other] = (await facts('REQUESTS')).filter(({ fact }) => fact.type === 'email.requested')
  const email = (one!.fact.data as { email: string }).email
  const moved = stamp(EmailMoved, CAUSE, { email, from: one!.seq, request: other!.seq }, Date.now())
  const seq = await put(subjects.moved(FIRST_ACCOUNT, email), moved)
  await finds(
    t,
    'pointer',
    `EMAILS ${seq}`,
    new RegExp(`^names REQUESTS ${other!.seq} as the request of ${email}, which it is not$`)
  )
})

t.test('a delivery of an event that is another', async t => {
  const fact = {
    ...deliveryRequested({ events: [{ id: 'ev_other', type: 'email.delivered', seq: 1, email: 'em_1' }] }),
    account: FIRST_ACCOUNT,
    id: newId('ev', Date.now())
  }
  const seq = await put(subjects.delivery('delivery', fact.data.webhook), fact)
  await finds(t, 'pointer', `WEBHOOKS ${seq}`, /^names EMAILS 1 as ev_other, which it is not$/)
})

t.test("a recipient's facts that cannot have come about", async t => {
  const { subject, fact } = (await facts('EMAILS')).findLast(({ fact }) => fact.type === 'email.delivered')!
  const { email, n, request, sequence } = (fact as EmailDelivered).data
  const seq = await put(subject, {
    ...deferred({ email, n, request, sequence: sequence + 1 }),
    account: FIRST_ACCOUNT,
    id: newId('ev', Date.now())
  })
  await finds(t, 'history', `EMAILS ${seq}`, /recipient 0: email.deferred follows email.delivered$/)
})

t.test('content without a request, once that cannot be on its way; and a request without its content', async t => {
  await blobs.put('em_nobodys', Buffer.from('{}'))
  const report = await prove()
  t.equal(
    counts(report),
    known.map(({ kind, count }) => `${kind} ${count}`).join(', '),
    'its request may be on its way'
  )
  await finds(t, 'object', 'CONTENT em_nobodys', /belongs to no request/, 4 * 3_600_000)
  await blobs.remove('em_nobodys')
  await blobs.remove(big)
  t.match(example(await prove(), 'object'), {
    where: /^REQUESTS/,
    message: `the content of ${big} is not in the object store`
  })
  known = known.filter(({ kind }) => kind !== 'object')
})

t.test('a claim leaves by its own time, and by none before that', async t => {
  const hash = 'c'.repeat(64)
  const claim = stamp(RequestClaimed, CAUSE, {
    hash,
    bodyHash: hash,
    emails: [big],
    answer: { status: 202, location: null, body: {} }
  }, Date.now())
  const seq = await put(subjects.claim(FIRST_ACCOUNT, hash), claim, { ttl: '1s' })
  await until(async () => await api(bus, 'STREAM.MSG.GET.REQUESTS', { seq }).then(() => false, () => true))
  const early = await prove()
  t.match(example(early, 'gap'), { where: `REQUESTS ${seq}` })
  const late = await prove(8 * 86_400_000)
  t.notOk(example(late, 'gap'))
  t.match(late.streams[0], { gone: { expired: 1 } })
  const record = (await facts('EMAILS')).findLast(({ fact }) => fact.type === 'email.recorded')!
  const request = (record.fact.data as { request: number }).request
  await api(bus, 'STREAM.MSG.DELETE.REQUESTS', { seq: request })
  t.match(example(await prove(8 * 86_400_000), 'gap'), { where: `REQUESTS ${request}` }, 'a request has no such time')
})

t.test('what an erasure says it deletes is explained, and so is what followed from it', async t => {
  const forgotten = usage('2020-07')
  const seq = await put(subjects.usage(FIRST_ACCOUNT, '2020-07'), forgotten)
  await put(subjects.usage(FIRST_ACCOUNT, '2020-08'), usage('2020-08', { causation: forgotten.id }))
  remember(await prove())
  await api(bus, 'STREAM.MSG.DELETE.CONTROL', { seq })
  const found = await prove()
  t.match(example(found, 'gap'), { where: `CONTROL ${seq}` })
  t.match(example(found, 'cause'), { message: new RegExp(forgotten.id) })
  const erasure = newId('era', Date.now())
  const data = {
    erasure,
    hash: 'a'.repeat(64),
    requestedAt: new Date().toISOString(),
    counts: NOTHING_ERASED,
    deletes: [{ stream: 'CONTROL', seqs: [seq] }]
  }
  await put(subjects.erasure(FIRST_ACCOUNT, erasure), stamp(ErasureAdvanced, CAUSE, data, Date.now()))
  const explained = await prove()
  t.notOk(example(explained, 'gap'))
  t.notOk(example(explained, 'cause'))
  t.match(explained.streams[3], { stream: 'CONTROL', gone: { erased: 1 } })
})

t.test('what has left by age is explained, and what came from it', async t => {
  remember(await prove())
  await app.stop()
  const { config } = await api<{ config: object }>(bus, 'STREAM.INFO.EMAILS', undefined)
  await api(bus, 'STREAM.UPDATE.EMAILS', { ...config, max_age: 1e9, duplicate_window: 1e9 })
  await until(async () =>
    (await api<{ state: { messages: number } }>(bus, 'STREAM.INFO.EMAILS', undefined)).state.messages === 0
  )
  const report = await prove()
  t.match(report.streams[1], { stream: 'EMAILS', facts: 0, gone: { aged: await lastSequence(bus, 'EMAILS') } })
  t.same(
    report.found.filter(({ kind }) => kind === 'gap').flatMap(({ examples }) => examples).filter(({ where }) =>
      where.startsWith('EMAILS')
    ),
    []
  )
  t.notOk(report.found.some(({ kind }) => kind === 'cause'))
})
