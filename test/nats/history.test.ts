import t from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import { EmailRecorded } from '#streams/email/facts.ts'
import { emailPartitionOf, subjects } from '#streams/subjects.ts'
import { askedInLog } from '#src/actions/email-past.ts'
import { createFactLog, stamp } from '#src/actions/fact-log.ts'
import { systemClock } from '#src/base/clock.ts'
import { api } from '#src/nats/api.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { bisect, readFacts } from '#src/nats/range.ts'
import { openBus } from '../support/bus.ts'
import { ACCOUNT, delivered, opened, requested } from '../support/facts.ts'

const { bus } = await openBus(t)
const factLog = createFactLog(bus, systemClock)

const deliver = (email: string, n = 0) => ({ fact: delivered({ email, n }) })
const open = (email: string, n: number) => ({ fact: opened({ email, n }) })

t.test('all facts of an email, and no others, in the order of the log, over pages, with the time of each', async t => {
  const before = Date.now()
  const own = [
    deliver('em_one', 0),
    deliver('em_one', 1),
    ...Array.from({ length: 1200 }, (_, i) => open('em_one', i % 50))
  ]
  for (let i = 0; i < own.length; i += 200) {
    await Promise.all([...own.slice(i, i + 200), deliver(`em_other${i}`)].map(part => factLog.append([part])))
  }
  const facts = await readFacts(bus, 'EMAILS', subjects.ofEmail(ACCOUNT, 'em_one'), 'leader')
  t.same(facts.map(({ fact }) => fact.id).sort(), own.map(({ fact }) => fact.id).sort())
  t.same(facts.map(({ seq }) => seq), facts.map(({ seq }) => seq).sort((a, b) => a - b))
  t.ok(facts.every(({ storedMs }) => storedMs >= before - 1 && storedMs <= Date.now() + 1))
  t.same(
    (await readFacts(bus, 'EMAILS', subjects.ofEmail('*', 'em_one'), 'leader')).length,
    own.length,
    'whosever it is'
  )
  t.same(await readFacts(bus, 'EMAILS', subjects.ofEmail(ACCOUNT, 'em_none'), 'leader'), [])
})

t.test('no answer is an error that tells so', async t => {
  const { config } = await api<{ config: Record<string, unknown> }>(bus, 'STREAM.INFO.EMAILS', undefined)
  await api(bus, 'STREAM.UPDATE.EMAILS', { ...config, allow_direct: false })
  t.teardown(async () => void await api(bus, 'STREAM.UPDATE.EMAILS', config))
  await t.rejects(
    readFacts(bus, 'EMAILS', subjects.ofEmail(ACCOUNT, 'em_one'), 'leader').catch(error => {
      throw isUnanswered(error) ? new Error('unanswered') : error
    }),
    { message: 'unanswered' }
  )
})

t.test('what was asked is found by its record once the request is gone', async t => {
  const id = 'em_recorded'
  const partition = emailPartitionOf(id)
  const recordOf = (email: string, request: number) => {
    const { content: _content, ...asked } =
      requested({ email, scheduledAt: request === 77 ? '2026-11-22T10:00:00.000Z' : null }).data
    return {
      fact: stamp(EmailRecorded, { account: ACCOUNT, correlation: 'test', causation: null }, {
        ...asked,
        request,
        requestedAt: '2026-11-21T10:00:00.000Z'
      }, Date.now())
    }
  }
  // Records of one partition are in one order.
  const ids = Array.from({ length: 2000 }, (_, i) => `em_r${i}`).filter(email => emailPartitionOf(email) === partition)
  for (let request = 2; request < 150; request += 3) {
    await factLog.append([recordOf(request === 77 ? id : ids.pop()!, request)])
    if (request % 4 === 0) await factLog.append([deliver(`em_between${request}`)])
  }
  const compare = (wanted: number) => (fact: AnyFact) =>
    (fact.type === 'email.recorded' ? fact.data.request : 0) - wanted
  const requestAt = async (wanted: number) => {
    const found = await bisect(bus, 'EMAILS', subjects.record(partition), compare(wanted))
    return found?.fact.type === 'email.recorded' ? found.fact.data.request : null
  }
  for (let wanted = 1; wanted <= 149; wanted++) {
    t.equal(await requestAt(wanted), Math.ceil((wanted - 2) / 3) * 3 + 2, String(wanted))
  }
  t.equal(await requestAt(150), null, 'after the last one')
  await factLog.append([{ fact: delivered({ email: id, request: 77 }) }])
  const facts = await readFacts(bus, 'EMAILS', subjects.ofEmail(ACCOUNT, id), 'leader')
  t.match(await askedInLog(bus, id, facts), {
    id,
    account: ACCOUNT,
    request_seq: 77,
    subject: 'Hello',
    recipients: [{ address: 'ada@example.net', scheduled_at: '2026-11-22T10:00:00.000Z' }]
  })
  t.equal(await askedInLog(bus, 'em_unheard', []), null)
  const strange = [{ ...facts[0]!, fact: delivered({ email: 'em_lost', request: 80 }) }]
  t.equal(await askedInLog(bus, 'em_lost', strange), null, 'another stands in its place')
})
