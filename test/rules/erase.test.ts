import t from 'tap'
import { checkFact, decodeFact, encodeFact, type AnyFact } from '#streams/catalog.ts'
import type { Fact } from '#streams/define.ts'
import { advancesOf } from '#streams/erasure/decide.ts'
import { evolveErasure, NOTHING_ERASED, type ErasureState } from '#streams/erasure/state.ts'
import type { ErasureFact } from '#streams/erasure/facts.ts'
import { isErased, pastOf, redact, requestWithout } from '#streams/email/erase.ts'
import { ERASED, parseAddress } from '#streams/address.ts'
import { foldAddress } from '#streams/suppression/decide.ts'
import { cleanerOf } from '#src/actions/erasure-find.ts'
import type { EmailErased, EngagementFact, RecipientFact } from '#streams/email/facts.ts'
import { evolve, newRecipient } from '#streams/email/state.ts'
import {
  asIs,
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

const WHO = 'ada@example.net'
const SECRET = 'what-somebody-said'
const event = JSON.stringify({
  id: 'ev_1',
  type: 'email.x',
  data: {
    from: 'news@example.com',
    to: WHO,
    subject: SECRET,
    tags: ['welcome'],
    metadata: { who: SECRET },
    smtp_response: SECRET
  }
})
const said = { code: 450, enhanced: '4.7.1', text: SECRET }
const email = 'em_one'

/** One of each kind, with something personal wherever it can be. */
const ALL: Array<RecipientFact | EngagementFact> = [
  attempted({ email, digest: SECRET }),
  delivered({ email, event, reply: { ...said, code: 250 }, host: SECRET, address: SECRET }),
  deferred({ email, event, reply: said, error: SECRET, host: SECRET, address: SECRET }),
  bounced({ email, event, reply: said, error: SECRET, host: SECRET, report: 'in_1' }),
  failed({ email, event, detail: SECRET }),
  inDoubt({ email }),
  suppressed({ email, tags: ['welcome'] }),
  rescheduled({ email }),
  canceled({ email, tags: ['welcome'] }),
  retryRequested({ email }),
  opened({ email, event }),
  clicked({ email, event, url: `https://shop.example/${SECRET}` }),
  complained({ email, event, feedback: `${SECRET} <${WHO}>` }),
  unsubscribed({ email, event })
]

t.test('the placeholder is an address of nobody', async t => {
  t.equal(parseAddress(ERASED), null, 'and takes no mail')
  t.ok(isErased(ERASED))
  t.notOk(isErased(WHO))
})

t.test('what is left of a fact fits its schema, names nobody, and still tells what is counted', async t => {
  for (const fact of ALL) {
    const left = redact(fact, asIs)
    t.same(checkFact(left), left, fact.type)
    const text = JSON.stringify(left)
    t.notOk([WHO, SECRET].some(word => text.includes(word)), `${fact.type}: ${text}`)
    const { data: _data, ...envelope } = fact
    t.match(left, { ...envelope, data: { email, n: 0, request: 1, to: ERASED, sequence: fact.data.sequence } })
    if ('event' in fact.data) {
      t.match(
        JSON.parse((left.data as { event: string }).event).data,
        { from: 'news@example.com', tags: ['welcome'] },
        fact.type
      )
    }
    t.same(redact(left, asIs), left, 'redacted twice, the same')
  }
})

t.test('codes, classes and stages stay; only a Feedback-Type that is one does', async t => {
  t.match(redact(ALL[2]! as RecipientFact, asIs).data, {
    reply: { code: 450, enhanced: '4.7.1', text: '' },
    class: 'greylisted',
    stage: 'rcpt',
    via: 'mx',
    ms: 120,
    tls: { version: 'TLSv1.3' },
    first: true
  })
  t.match(redact(complained({ email, feedback: 'abuse' }), asIs).data, { feedback: 'abuse', report: 'in_1' })
  t.match(redact(complained({ email, feedback: 'from ada' }), asIs).data, { feedback: 'other' })
})

function erasedAfter (facts: Array<RecipientFact | EngagementFact>): EmailErased {
  const past = recorded(facts, 7).map(({ fact, seq }) => ({
    seq,
    storedAt: timeAt(seq),
    fact: redact(fact as RecipientFact, asIs) as unknown
  }))
  const data = { email, n: 0, request: 1, to: ERASED, sequence: facts.length + 1, erasure: 'era_1', past }
  return {
    id: 'ev_erased',
    type: 'email.erased',
    version: 1,
    time: timeAt(900),
    account: 'acc_test',
    causation: null,
    correlation: 'test',
    data
  } as EmailErased
}

t.test('the past is read as it was, each fact in its place', async t => {
  const read = pastOf(decodeFact(encodeFact(erasedAfter(ALL))) as EmailErased)
  t.same(read.map(({ fact }) => fact), ALL.map(fact => redact(fact, asIs)))
  t.match(read[0], { seq: 7, storedAt: timeAt(7), subject: /^email\.\d+\.acc_test\.em_one\.0$/ })
  t.match(read.at(-1), { seq: 7 + ALL.length - 1, subject: /\.em_one\.0\.engagement$/ })
})

t.test('the past of an older version is read as one of the present', async t => {
  const old = { ...redact(canceled({ email }), asIs), version: 1 } as Fact
  const { from: _from, tags: _tags, ...data } = old.data as Record<string, unknown>
  const fact = erasedAfter([])
  fact.data.past.push({ seq: 3, storedAt: timeAt(1), fact: { ...old, data } })
  t.match(pastOf(fact)[0], { fact: { version: 2, data: { from: '', tags: [] } } })
})

t.test('a recipient that is erased stays as it stood, whether the facts before are there or not', async t => {
  const facts: RecipientFact[] = [
    attempted({ email }),
    deferred({ email }),
    attempted({ email, attempt: 2 }),
    bounced({ email, attempt: 2 })
  ]
  const end = erasedAfter([...facts, opened({ email })])
  const whole = [...facts, end].reduce(evolve, newRecipient(null))
  t.match(whole, { status: 'bounced', attempts: 2, deferrals: 1, facts: 6, erased: true })
  t.same(evolve(newRecipient(timeAt(5)), end), whole)
  t.match(evolve(newRecipient(null), erasedAfter([attempted({ email }), inDoubt({ email })])), {
    status: 'in_doubt',
    nextAttemptAt: null,
    erased: true
  })
})

const TWO = requested({
  email,
  recipients: [{ address: WHO, name: 'Ada', kind: 'to' }, { address: 'bob@example.net', name: 'Bob', kind: 'cc' }],
  subject: SECRET,
  headers: [{ name: 'X-For', value: SECRET }],
  metadata: { who: SECRET },
  tags: ['welcome'],
  replyTo: [{ address: 'help@example.com', name: null }],
  attachments: [{ filename: SECRET, contentType: 'text/plain', contentId: null, sizeBytes: 3 }]
})

t.test("a request without one of two is the other's", async t => {
  const left = requestWithout(TWO.data, [0], asIs)
  t.same(left, { ...TWO.data, recipients: [{ address: ERASED, name: null, kind: 'to' }, TWO.data.recipients[1]] })
  t.same(checkFact({ ...TWO, data: left }).data, left)
})

t.test('a request without anybody says nothing any more', async t => {
  const left = requestWithout(requestWithout(TWO.data, [1], asIs), [0], asIs)
  t.match(left, {
    subject: '',
    headers: [],
    metadata: {},
    attachments: [],
    replyTo: [],
    content: null,
    tags: ['welcome'],
    from: TWO.data.from
  })
  t.notOk(JSON.stringify(left).includes(SECRET))
  const { content: _content, ...asked } = TWO.data
  t.notOk(
    'content' in requestWithout({ ...asked, request: 1, requestedAt: TWO.time }, [0, 1], asIs),
    'nor does a record get what it never had'
  )
})

const NONE: Pick<ErasureState, 'announced'> = { announced: new Map() }
const upTo = (count: number, from = 1) => Array.from({ length: count }, (_, i) => from + i)

t.test('what is told before a deletion has room for a thousand of a stream', async t => {
  const advances = advancesOf(NONE, [{ stream: 'EMAILS', seqs: upTo(1500), counts: { recipients: 1 } }, {
    stream: 'REQUESTS',
    seqs: [4],
    counts: {}
  }, { stream: 'EMAILS', seqs: [9000], counts: { recipients: 1 } }])
  t.same(advances.map(({ deletes }) => deletes.map(({ stream, seqs }) => [stream, seqs.length])), [[['EMAILS', 1000], [
    'REQUESTS',
    1
  ]], [['EMAILS', 501]]])
  t.same(advances.map(({ counts }) => counts.messages), [1001, 501])
  t.same(advances.map(({ counts }) => counts.recipients), [1, 1], 'each thing is counted once')
})

t.test('what has been told is told no more, nor counted again', async t => {
  const announced = { announced: new Map([['EMAILS', new Set([1, 2])]]) }
  t.same(advancesOf(announced, [{ stream: 'EMAILS', seqs: [1, 2], counts: { recipients: 1 } }]), [])
  t.match(advancesOf(announced, [{ stream: 'EMAILS', seqs: [2, 3], counts: { recipients: 1 } }]), [{
    counts: { ...NOTHING_ERASED, messages: 1 },
    deletes: [{ stream: 'EMAILS', seqs: [3] }]
  }])
})

t.test('an erasure adds up what its steps have done, also when its first fact is gone', async t => {
  const base = { version: 1, time: timeAt(50), account: 'acc_test', causation: null, correlation: 'test' }
  const shared = { erasure: 'era_1', hash: 'a'.repeat(64) }
  const step = (seqs: number[], counts: object) =>
    ({
      ...base,
      id: 'ev_1',
      type: 'erasure.advanced',
      data: {
        ...shared,
        requestedAt: timeAt(1),
        counts: { ...NOTHING_ERASED, ...counts },
        deletes: [{ stream: 'EMAILS', seqs }]
      }
    }) as unknown as ErasureFact
  const asked = {
    ...base,
    time: timeAt(1),
    id: 'ev_0',
    type: 'erasure.requested',
    data: { ...shared, address: 'sealed' }
  } as unknown as ErasureFact
  for (const fact of [asked, step([1], {})]) t.same((checkFact(fact as AnyFact) as AnyFact).type, fact.type)
  const steps = [step([1, 2], { recipients: 1, messages: 2 }), step([3], { recipients: 1, messages: 1 })]
  const fold = (facts: ErasureFact[]) => facts.reduce<ErasureState | null>(evolveErasure, null)!
  t.match(fold([asked, ...steps]), {
    address: 'sealed',
    requestedAt: timeAt(1),
    completedAt: null,
    counts: { recipients: 2, messages: 3 }
  })
  t.match(fold(steps), { id: 'era_1', address: null, requestedAt: timeAt(1), counts: { recipients: 2, messages: 3 } })
  t.same([...fold(steps).announced.get('EMAILS')!], [1, 2, 3])
})

t.test('of what stays, the address is taken out wherever the sender wrote it', async t => {
  const clean = cleanerOf(WHO)
  const texts: Array<[string, string]> = [
    [WHO, ERASED],
    ['for ADA@Example.NET!', `for ${ERASED}!`],
    ['customer-ada@example.net', `customer-${ERASED}`],
    ['?to=ada%40example.net&x=1', `?to=${ERASED}&x=1`],
    ['xada@example.net', 'xada@example.net'],
    ['ada@example.network', 'ada@example.network'],
    ['Nothing Here', 'Nothing Here']
  ]
  for (const [text, left] of texts) t.equal(clean(text), left)
  const zoe = cleanerOf(foldAddress(parseAddress('Zo\u00eb@gr\u00f6\u00dfe.example')!))
  for (
    const text of [
      'Zo\u00eb@gr\u00f6\u00dfe.example',
      'ZOE\u0308@GR\u00d6\u00dfE.example',
      'zo\u00eb@xn--gre-6ka8i.example'
    ]
  ) {
    t.equal(zoe(`to ${text}.`), `to ${ERASED}.`, text)
  }
  const data = {
    ...TWO.data,
    from: { address: 'news@example.com', name: `For ${WHO}` },
    recipients: [TWO.data.recipients[0]!, { address: 'bob@example.net', name: `with ${WHO}`, kind: 'cc' as const }],
    replyTo: [{ address: WHO, name: null }, { address: 'help@example.com', name: WHO }],
    subject: `Hello ${WHO}`,
    headers: [{ name: 'X-For', value: WHO }],
    metadata: { [WHO]: true, who: WHO, n: 1 },
    tags: ['welcome', `customer-${WHO}`],
    attachments: [{ ...TWO.data.attachments[0]!, filename: `${WHO}.pdf` }]
  }
  const left = requestWithout(data, [0], clean)
  t.notMatch(JSON.stringify(left), WHO)
  t.match(left, { subject: `Hello ${ERASED}`, metadata: { n: 1 }, replyTo: [{ address: 'help@example.com' }] })
  t.same(checkFact({ ...TWO, data: left }).data, left)
  t.same(requestWithout(data, [0, 1], clean).tags, ['welcome', `customer-${ERASED}`])
  const told = JSON.stringify({ data: { from: 'news@example.com', tags: [WHO] } })
  for (const fact of [delivered({ email, event: told }), suppressed({ email, tags: [WHO] })]) {
    t.notOk(JSON.stringify(redact(fact, clean)).includes(WHO), fact.type)
  }
})
