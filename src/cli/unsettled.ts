import type { AnyFact } from '#streams/catalog.ts'
import { nextStep } from '#streams/email/decide.ts'
import type { RecipientFact } from '#streams/email/facts.ts'
import { evolve, newRecipient } from '#streams/email/state.ts'
import { groupsOf } from '#streams/groups.ts'
import { subjects } from '#streams/subjects.ts'
import { createAppenders } from '#src/actions/appenders.ts'
import { changeRecipients, type StoredRequest } from '#src/actions/recipient.ts'
import { systemClock } from '#src/base/clock.ts'
import type { Bus } from '#src/nats/connect.ts'
import { createLookup, type Lookup } from '#src/nats/lookup.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readPages } from '#src/nats/range.ts'

/** Recipients of live mail whose outcome a restored log does not know. */
export interface Unsettled {
  /** Their time has come, so they may have had the mail after the backup: a Jetpost sends to them as soon as it starts.
   */
  due: number
  /** Their time has not come: what was to be sent later, and retries. */
  later: number
  /** Of those due, canceled. */
  canceled: number
}

const FACTS = 1000
const ASKED_AT_ONCE = 512
const CANCELED_AT_ONCE = 100
const PAGE_BYTES = 8 * 1024 * 1024

/** Finds for every recipient what a sender would do now, by the last of its facts; `cancel`: cancels those due. Reads
 *  REQUESTS once, page by page. */
export async function countUnsettled (bus: Bus, cancel: boolean, signal: AbortSignal): Promise<Unsettled> {
  const lookup = createLookup(bus, 'EMAILS')
  const appenders = createAppenders(bus, systemClock)
  const unsettled: Unsettled = { due: 0, later: 0, canceled: 0 }
  const limits = { max: () => FACTS, bytesMax: PAGE_BYTES }
  for await (const messages of readPages(bus, 'REQUESTS', { filter: null, afterSeq: 0 }, limits)) {
    signal.throwIfAborted()
    const requests = messages.map(decodeMessage).filter((found): found is StoredRequest =>
      found.fact.type === 'email.requested' && !found.fact.data.test
    )
    const steps = await stepsOf(lookup, requests)
    unsettled.later += steps.filter(({ step }) => step === 'schedule').length
    const due = steps.filter(({ step }) => step === 'send' || step === 'doubt')
    unsettled.due += due.length
    if (!cancel) continue
    for (const some of groupsOf(due, CANCELED_AT_ONCE)) {
      const results = await Promise.all(
        some.map(({ request, n }) => changeRecipients(appenders, [{ ref: { request, n }, change: { name: 'Cancel' } }]))
      )
      unsettled.canceled += results.filter(([result]) => result!.refusal === null).length
    }
  }
  return unsettled
}

async function stepsOf (lookup: Lookup, requests: StoredRequest[]) {
  const refs = requests.flatMap(request => request.fact.data.recipients.map((_recipient, n) => ({ request, n })))
  const last: Array<AnyFact | null> = []
  // Each lookup has its own deadline, from when it is asked.
  for (const some of groupsOf(refs, ASKED_AT_ONCE)) {
    last.push(
      ...await lookup.last(some.map(({ request: { fact }, n }) => subjects.recipient(fact.account, fact.data.email, n)))
    )
  }
  return refs.map(({ request, n }, i) => ({ request, n, step: stepOf(request, last[i]!) }))
}

/** The last fact has the status; a sender that was at it is gone. */
function stepOf ({ fact: { data } }: StoredRequest, last: AnyFact | null): ReturnType<typeof nextStep>['do'] {
  if (last?.type === 'email.erased') return 'nothing'
  const before = newRecipient(data.scheduledAt)
  const state = last === null ? before : evolve(before, last as RecipientFact)
  return nextStep(state, { nowMs: Date.now(), request: data, voidClaim: null }, true).do
}
