import { Refusal } from '#streams/define.ts'
import type { Principal } from '#streams/directory.ts'
import { scheduleFault } from '#streams/email/decide.ts'
import type { RecipientState } from '#streams/email/state.ts'
import { heldBack } from '#streams/suppression/decide.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Services } from './services.ts'
import { sendingDomainOf } from './sending-domain.ts'
import { scheduleSend } from './due-send.ts'
import { changeRecipients, loadRecipient, type RecipientChange } from './recipient.ts'
import type { StoredRequest } from './stored-request.ts'

/** A recipient of an email, and how it stands. */
export interface RecipientStanding {
  n: number
  address: string
  status: RecipientState['status']
  /** An earlier copy's fate is not known: it may be there. */
  may_have_arrived?: true
}

/** What a change did: the recipients it reached, and those it came too late (or too early) for. */
export interface Changed {
  changed: RecipientStanding[]
  others: RecipientStanding[]
}

/** Whether a claim leads to a delivery or to another wait is known soon, mostly: a cancel is worth that wait, and no
 *  more. */
const SENDING_LOOK_MS = 100
const SENDING_LOOKS = 20
/** A schedule that cannot be stored in time is made by the reconciler. */
const SCHEDULE_TIMEOUT_MS = 2000
/** How often somebody else may move a recipient while its schedule is being stored. */
const MOVES_MAX = 5

/** Whether a key may change an email: as for sending it, `from` must be on a domain of the key's (spec 4.1 rule 1); and
 *  a test key has no say in live mail. */
export function mayChange (
  services: Pick<Services, 'directory'>,
  principal: Principal,
  { fact: { data } }: StoredRequest
): boolean {
  return !(sendingDomainOf(services.directory, principal, data.from.address) instanceof Refusal) &&
    (data.test || !principal.test)
}

/** Calls an email off for every recipient that still waits. Refuses `not_cancelable` when there is none. Decided by the
 *  log. Throws LogUnavailable or Conflict. */
export async function cancelEmail (services: Services, request: StoredRequest): Promise<Changed | Refusal> {
  for (let look = 0;; look++) {
    const result = await changeAll(services, request, () => ({ name: 'Cancel' }))
    if (look >= SENDING_LOOKS || !result.others.some(({ status }) => status === 'sending')) {
      return result.changed.length > 0
        ? result
        : new NotChanged('not_cancelable', 'No recipient can be canceled any more.', result.others)
    }
    await sleep(SENDING_LOOK_MS)
  }
}

/** Moves a scheduled email to another time; its time budget starts again there. Refuses `not_scheduled`, and a time
 *  at which its content would be gone. Throws LogUnavailable or Conflict. */
export async function rescheduleEmail (
  services: Services,
  request: StoredRequest,
  atMs: number
): Promise<Changed | Refusal> {
  const { contentRetentionMs } = services.settings
  const endMs = Date.parse(request.fact.time) + contentRetentionMs
  const refusal = scheduleFault(atMs, services.factLog.clock.nowMs(), endMs)
  if (refusal !== null) return refusal
  const expiresAt = timestamp(Math.min(endMs, atMs + budgetMs(request)))
  const result = await changeAll(
    services,
    request,
    () => ({ name: 'Reschedule', scheduledAt: timestamp(atMs), expiresAt })
  )
  await remind(services, request, result.changed, atMs)
  return result.changed.length > 0
    ? result
    : new NotChanged('not_scheduled', 'No recipient is scheduled any more.', result.others)
}

/** Sends an email again to those who did not get it: bounced, failed, held in doubt, or no longer suppressed. Refuses
 *  `not_retryable`. Throws LogUnavailable, Conflict, or when NATS does not answer. */
export async function retryEmail (services: Services, request: StoredRequest): Promise<Changed | Refusal> {
  const { fact: { account, time, data } } = request
  const nowMs = services.factLog.clock.nowMs()
  const expiresAt = timestamp(
    Math.min(Date.parse(time) + services.settings.contentRetentionMs, nowMs + budgetMs(request))
  )
  const standing = await services.suppressions.standing(account, data.recipients.map(({ address }) => address))
  const result = await changeAll(
    services,
    request,
    n => (heldBack(standing[n]!, data.unsubscribe) === null ? { name: 'Retry', expiresAt } : null)
  )
  await remind(services, request, result.changed, nowMs)
  return result.changed.length > 0
    ? result
    : new NotChanged(
      'not_retryable',
      'No recipient can be retried: each was delivered, is under way or is suppressed.',
      result.others
    )
}

/** A refusal that says how the recipients stand. */
export class NotChanged extends Refusal {
  readonly others: RecipientStanding[]
  constructor (code: string, message: string, others: RecipientStanding[]) {
    super(code, message)
    this.others = others
  }
}

async function changeAll (
  services: Services,
  request: StoredRequest,
  changeOf: (n: number) => RecipientChange
): Promise<Changed> {
  const { recipients } = request.fact.data
  const changes = recipients.map((_recipient, n) => ({ ref: { request, n }, change: changeOf(n) }))
  const results = await changeRecipients(services.factLog, changes)
  const all = results.map(({ seen: { state }, refusal }, n) => {
    const doubted = state.doubts.sender + state.doubts.line > 0 && state.status !== 'delivered'
    const standing: RecipientStanding = {
      n,
      address: recipients[n]!.address,
      status: state.status,
      ...(doubted ? { may_have_arrived: true } : {})
    }
    return { changed: refusal === null && changes[n]!.change !== null, standing }
  })
  return {
    changed: all.filter(({ changed }) => changed).map(({ standing }) => standing),
    others: all.filter(({ changed }) => !changed).map(({ standing }) => standing)
  }
}

/** Has the recipients come back to a sender. When the schedule cannot be stored now the change holds all the same: the
 *  reconciler finds who is overdue. */
async function remind (
  services: Services,
  request: StoredRequest,
  recipients: RecipientStanding[],
  atMs: number
): Promise<void> {
  await Promise.all(recipients.map(({ n }) => remindOne(services, request, n, atMs).catch(() => {})))
}

/** Another request may have moved it and stored its schedule before ours: the facts say which time holds. */
async function remindOne (services: Services, request: StoredRequest, n: number, atMs: number): Promise<void> {
  const { bus } = services.factLog
  const { fact, seq } = request
  let dueMs = atMs
  for (let moves = 0; moves < MOVES_MAX; moves++) {
    await scheduleSend(
      bus,
      { account: fact.account, email: fact.data.email, n, request: seq },
      dueMs,
      SCHEDULE_TIMEOUT_MS
    )
    const { state } = await loadRecipient(bus, { request, n })
    const holdsMs = state.nextAttemptAt === null ? dueMs : Date.parse(state.nextAttemptAt)
    if (holdsMs === dueMs) return
    dueMs = holdsMs
  }
}

/** How long the request gave servers for their verdict. */
function budgetMs ({ fact: { time, data } }: StoredRequest): number {
  return Date.parse(data.expiresAt) - Date.parse(data.scheduledAt ?? time)
}
