import { isErased, requestWithout, type Clean } from '#streams/email/erase.ts'
import { EmailMoved, EmailRecorded, type EmailRequested } from '#streams/email/facts.ts'
import type { ToDelete } from '#streams/erasure/decide.ts'
import type { ErasureState } from '#streams/erasure/state.ts'
import { subjects } from '#streams/subjects.ts'
import { CONTENT_STREAM } from '#src/nats/blob-transfer.ts'
import { placesOfBlob } from '#src/nats/blobs.ts'
import { factAt } from '#src/nats/certain.ts'
import { getFact } from '#src/nats/get.ts'
import type { ServiceSettings } from './services.ts'
import { placesOf, type RecordRest, type Trace } from './erasure-find.ts'
import { causedBy, stamp, type FactLog } from './fact-log.ts'
import type { StoredRequest } from './stored-request.ts'

export interface RequestEraser {
  factLog: FactLog
  settings: Pick<ServiceSettings, 'contentRetentionMs'>
  erasure: ErasureState
  /** The folded address. */
  address: string
  /** Takes it out of texts. */
  clean: Clean
}

/** Puts what is left of a request in its place: the request of the others, with their content, and a record without the
 *  person. Gives what may be deleted then, in the order in which it must: a record whose request is still there would
 *  be written again. Safe to repeat. Throws LogUnavailable, Conflict, or when NATS does not answer. */
export async function eraseRequest (
  eraser: RequestEraser,
  trace: Trace,
  rests: readonly RecordRest[]
): Promise<ToDelete[]> {
  const { factLog: { bus } } = eraser
  const { email, requests, records } = trace
  const found = await Promise.all(requests.map(async seq => await factAt(bus, 'REQUESTS', seq)))
  const request = found.findLast(recorded => recorded?.fact.type === 'email.requested') as StoredRequest | undefined
  const asked = request === undefined ? await recordedIn(eraser, records) : askedIn(eraser, request)
  if (asked === null) return []
  const others = asked.data.recipients.some(({ address }) => !isErased(address))
  const place = others && request !== undefined ? await keepRest(eraser, request, rests) : asked.data.request
  const kept = await keepRecord(eraser, { ...asked, data: { ...asked.data, request: place } })
  const blob = others ? [] : await placesOfBlob(bus, email)
  return [
    ['REQUESTS', requests] as const,
    ['EMAILS', records.filter(seq => seq !== kept)] as const,
    [CONTENT_STREAM, blob] as const
  ]
    .filter(([, seqs]) => seqs.length > 0).map(([stream, seqs]) => ({ stream, seqs, counts: {} }))
}

/** A record yet without its id, and after which fact it is written. */
interface RemainingRequest {
  data: EmailRecorded['data']
  cause: Parameters<typeof stamp>[1]
}

function askedIn ({ address, clean }: RequestEraser, { fact, seq }: StoredRequest): RemainingRequest {
  const { content: _content, head: _head, ...asked } = fact.data
  const data = { ...asked, request: seq, requestedAt: fact.time }
  return { data: requestWithout(data, placesOf(asked.recipients, address), clean), cause: causedBy(fact) }
}

/** Where the request itself has left the log. */
async function recordedIn (
  { factLog, address, clean }: RequestEraser,
  records: readonly number[]
): Promise<RemainingRequest | null> {
  const found = records.length === 0 ? null : await factAt(factLog.bus, 'EMAILS', records.at(-1)!)
  if (found?.fact.type !== 'email.recorded') return null
  const { account, correlation, causation, data } = found.fact
  const left = requestWithout(data, placesOf(data.recipients, address), clean)
  return { data: left, cause: { account, correlation, causation } }
}

/** The same fact without the person, for as long as the first would have lived, at a place of its own; and a word that
 *  says where. */
async function keepRest (
  { factLog, settings, erasure, address, clean }: RequestEraser,
  { fact, seq }: StoredRequest,
  rests: readonly RecordRest[]
): Promise<number> {
  const data = requestWithout(fact.data, placesOf(fact.data.recipients, address), clean)
  const earlier = rests.find(rest =>
    rest.seq > seq && data.recipients.every(({ address }, n) => !isErased(address) || rest.ns.includes(n))
  )
  const leftMs = Date.parse(fact.time) + settings.contentRetentionMs - factLog.clock.nowMs()
  const again = {
    fact: { ...fact, data } satisfies EmailRequested,
    ttlMs: Math.max(1000, leftMs),
    msgId: `${fact.id} ${seq} ${erasure.id}`
  }
  const place = earlier?.seq ?? (await factLog.append([again]))[0]!
  await tellMove(factLog, fact, seq, place)
  return place
}

async function tellMove (
  { bus, clock, append }: FactLog,
  fact: EmailRequested,
  from: number,
  place: number
): Promise<void> {
  const last = await getFact(bus, 'EMAILS', { last_by_subj: subjects.moved(fact.account, fact.data.email) }, 'leader')
  if (last?.fact.type === 'email.moved' && last.fact.data.request >= place) return
  const moved = stamp(EmailMoved, causedBy(fact), { email: fact.data.email, from, request: place }, clock.nowMs())
  await append([{ fact: moved, expectedSeq: last?.seq ?? 0 }])
}

/** Where it lies: said again, it is the record that was kept before, and not to be deleted. */
async function keepRecord (
  { factLog, erasure }: RequestEraser,
  { data, cause }: RemainingRequest
): Promise<number> {
  const fact = stamp(EmailRecorded, cause, data, factLog.clock.nowMs())
  const gone = data.recipients.filter(({ address }) => isErased(address)).length
  const [seq] = await factLog.append([{ fact, msgId: `${data.email} ${data.request} ${gone} ${erasure.id}` }])
  return seq!
}
