import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { projections } from '#projections/list.ts'
import type { Projection } from '#projections/define.ts'
import { ERASED } from '#streams/address.ts'
import { decodeFact, factTypes, type AnyFact } from '#streams/catalog.ts'
import { emptyDirectory, evolveDirectory } from '#streams/directory.ts'
import type { EmailDelivered, EmailErased, EmailRecorded } from '#streams/email/facts.ts'
import { engagementEndOf, FACT_STREAMS, placeOf, type Place } from '#streams/place.ts'
import {
  EMAIL_PARTITIONS,
  emailPartitionOf,
  DELIVERY_KINDS,
  isUnder,
  subjects,
  webhookPartitionOf
} from '#streams/subjects.ts'
import { consumerPlans, streamPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { Append } from '#src/nats/append.ts'

const FOLDER = join(import.meta.dirname, '..', 'fixtures', 'facts')
const read = (type: string) => {
  const version = factTypes.find(({ name }) => name === type)!.version
  return decodeFact(readFileSync(join(FOLDER, `${type}.v${version}.json`)))
}

const record = read('email.recorded') as EmailRecorded
const withoutPerson: EmailRecorded = {
  ...record,
  data: { ...record.data, recipients: [{ ...record.data.recipients[0]!, address: ERASED, name: null }] }
}
const request = read('delivery.requested') as Extract<AnyFact, { type: 'delivery.requested' }>
const deliveries = [null, 'rpl_1'].map(replay => ({ ...request, data: { ...request.data, replay } }))

/** A fact of every type; of those whose subject depends on more than that, one of each kind. */
const every: AnyFact[] = [...factTypes.map(({ name }) => read(name)), withoutPerson, ...deliveries]

const streams = streamPlans({ factsMs: 90 * 86_400_000, contentMs: 30 * 86_400_000 })
const isIn = ({ stream, subject }: Place, at: { stream: string, filter: string }) =>
  stream === at.stream && isUnder(subject, at.filter)
const typesUnder = (at: { stream: string, filter: string }) =>
  [
    ...new Set(every.filter(fact => isIn(placeOf(fact), at)).map(({ type }) => type))
  ].sort()
const typesLike = (pattern: RegExp) => factTypes.map(({ name }) => name).filter(name => pattern.test(name)).sort()

t.test('every fact has a place in the one stream that takes its subject', async t => {
  for (const fact of every) {
    const { stream, subject } = placeOf(fact)
    t.notMatch(subject, /[*> ]|undefined|null|NaN|\.\.|\.$/, subject)
    const taking = streams.filter(plan => plan.subjects.some(filter => isUnder(subject, filter)))
    t.strictSame(taking.map(({ name }) => name), [stream], `${fact.type} on ${subject}`)
  }
  t.strictSame([...new Set(every.map(fact => placeOf(fact).stream))].sort(), [...FACT_STREAMS].sort())
})

t.test('who changes with its key changes place, and only then', async t => {
  const delivered = read('email.delivered') as EmailDelivered
  const { email } = delivered.data
  t.strictSame(placeOf(delivered), { stream: 'EMAILS', subject: subjects.recipient(delivered.account, email, 0) })
  t.strictSame(
    placeOf({ ...delivered, data: { ...delivered.data, n: 7 } }).subject,
    subjects.recipient(delivered.account, email, 7)
  )
  t.strictSame(placeOf({ ...delivered, id: 'ev_other', time: '2030-01-01T00:00:00.000Z' }), placeOf(delivered))
  const [first, again] = deliveries.map(fact => placeOf(fact).subject)
  const { webhook } = request.data
  t.strictSame([first, again], DELIVERY_KINDS.map(kind => subjects.delivery(kind, webhook)))
})

t.test('each consumer is handed the facts that it is for', async t => {
  const under = ({ stream, filter_subject: filter }: ConsumerPlan) => typesUnder({ stream, filter })
  t.strictSame(under(consumerPlans.sender), ['email.requested'])
  t.strictSame(under(consumerPlans.inbound), typesLike(/^inbound\./))
  t.strictSame(under(consumerPlans.reactions), typesLike(/^email\.(?!requested)/))
  t.strictSame(under(consumerPlans.batchMembers), ['batch.joined'])
  t.strictSame(under(consumerPlans.replays), typesLike(/^replay\./))
})

t.test('the dispatch of a partition is handed what is owed, by kind, and reads what came of it', async t => {
  const partition = webhookPartitionOf(request.data.webhook)
  const under = (filter: string) => typesUnder({ stream: 'WEBHOOKS', filter })
  for (const kind of DELIVERY_KINDS) {
    t.strictSame(under(subjects.deliveries(kind, partition)), ['delivery.requested'])
    t.ok(under(subjects.deliveryFacts(kind, partition)).includes('delivery.requested'))
  }
  t.strictSame(under(subjects.deliveryFacts('delivery', partition)), typesLike(/^delivery\./))
})

t.test('the directory folds the facts under control., and no others', async t => {
  for (const fact of every) {
    const fold = () => evolveDirectory(emptyDirectory(), { fact, seq: 1, subject: placeOf(fact).subject })
    if (isIn(placeOf(fact), { stream: 'CONTROL', filter: 'control.>' })) t.doesNotThrow(fold, fact.type)
    else t.throws(fold, { message: `${fact.type} does not belong on CONTROL` })
  }
})

t.test('a projection reads the place of every fact that it makes rows of', async t => {
  const told = new Map<string, string[]>()
  for (const { name, streams, project } of Object.values<Projection>(projections)) {
    for (const fact of every) {
      const place = placeOf(fact)
      if (project([{ fact, seq: 1, subject: place.subject }]).length === 0) continue
      told.set(name, [...told.get(name) ?? [], fact.type])
      t.equal(streams.filter(source => isIn(place, source)).length, 1, `${name} reads ${fact.type}`)
    }
  }
  t.strictSame([...told.keys()].sort(), Object.keys(projections).sort(), 'each makes rows')
})

t.test('the parts of a projection share its facts without overlap', async t => {
  for (const { name, streams } of Object.values<Projection>(projections)) {
    for (const { stream, filter, partition, rerecorded } of streams) {
      if (partition === undefined) continue
      const parts = Array.from({ length: EMAIL_PARTITIONS }, (_, part) => partition(part)).filter(part => part !== null)
      for (const fact of every.filter(fact => isIn(placeOf(fact), { stream, filter }))) {
        const having = parts.filter(part => isIn(placeOf(fact), { stream, filter: part }))
        t.equal(having.length, 1, `${name}: one part has ${fact.type}`)
      }
      const place = rerecorded === undefined
        ? null
        : { stream: rerecorded.stream, subject: rerecorded.subject(emailPartitionOf(record.data.email)) }
      if (place !== null) t.match(placeOf(record), place, `${name}: where its last record lies`)
    }
  }
})

t.test('a record without a person stands beside those in the order of REQUESTS', async t => {
  const partition = emailPartitionOf(record.data.email)
  t.equal(placeOf(record).subject, subjects.record(partition))
  t.equal(placeOf(withoutPerson).subject, subjects.recordReplay(partition))
})

t.test('an erasure ends both subjects of a recipient', async t => {
  const erased = read('email.erased') as EmailErased
  const { account, data: { email, n } } = erased
  t.strictSame(placeOf(erased), { stream: 'EMAILS', subject: subjects.recipient(account, email, n) })
  t.strictSame(engagementEndOf(erased), { stream: 'EMAILS', subject: subjects.engagement(account, email, n) })
})

t.test('an append to anywhere else cannot be written down', async t => {
  const delivered = read('email.delivered') as EmailDelivered
  const erased = read('email.erased') as EmailErased
  const well: Append[] = [{ fact: delivered, expectedSeq: 0 }, { fact: erased }, {
    fact: erased,
    endsEngagements: true
  }]
  // @ts-expect-error the subject follows from the fact
  const elsewhere: Append = { fact: delivered, subject: subjects.inbound }
  // @ts-expect-error only an erasure ends anything
  const ended: Append = { fact: delivered, endsEngagements: true }
  t.equal([...well, elsewhere, ended].length, 5, 'the compiler has the word')
})
