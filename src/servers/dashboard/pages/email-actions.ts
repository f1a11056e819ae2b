import { isErased } from '#streams/email/erase.ts'
import { heldBack, isSandbox } from '#streams/suppression/decide.ts'
import type { StandingReason } from '#streams/suppression/facts.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import {
  buttonTo,
  actionButton,
  counted,
  exact,
  faultBox,
  faultsIn,
  form,
  heading,
  NO_FAULTS,
  type Faults
} from '../parts.ts'
import { PageNotFound, type Pages, type Visit } from '../visit.ts'
import { named, titleOf } from './email-format.ts'
import { timeField, fieldTime, utcTime } from '../times.ts'

export type EmailRecipient = Email['recipients'][number]
/** Why addresses are suppressed now; an empty list = not suppressed. */
export type SuppressionsByAddress = ReadonlyMap<string, readonly StandingReason[]>

const CANCELABLE: ReadonlySet<string> = new Set(['scheduled', 'queued', 'deferred'])
const RETRYABLE: ReadonlySet<string> = new Set(['bounced', 'failed', 'suppressed'])

/** Cancel, retry, reschedule, suppress. */
export function emailActions (pages: Pages): void {
  pages.post('/emails/:id/cancel', 'emails:send', async visit => {
    const { id, canceled, gone } = await visit.api.emails.cancel(visit.params.id!)
    const late = gone.length === 0 ? '' : ` It was too late for ${named(gone.map(({ address }) => address))}.`
    return { to: `/dashboard/emails/${id}`, notice: `Canceled for ${counted(canceled.length, 'recipient')}.${late}` }
  })

  pages.post('/emails/:id/retry', 'emails:send', async visit => {
    const { id, retried, others } = await visit.api.emails.retry(visit.params.id!)
    const rest = others.length === 0 ? '' : ` ${counted(others.length, 'other recipient')} unchanged.`
    return {
      to: `/dashboard/emails/${id}`,
      notice: `Retrying ${named(retried.map(({ address }) => address))}.${rest}`
    }
  })

  pages.get('/emails/:id/reschedule', 'emails:send', async visit => {
    const email = await visit.api.emails.get(visit.params.id!)
    return reschedulePage(visit, email, fieldTime(email.scheduled_at), NO_FAULTS)
  })

  pages.post('/emails/:id/reschedule', 'emails:send', async visit => {
    const typed = visit.form.get('scheduled_at') ?? ''
    try {
      const { id, scheduled_at: at } = await visit.api.emails.reschedule(visit.params.id!, {
        scheduled_at: utcTime(typed)
      })
      return { to: `/dashboard/emails/${id}`, notice: `Rescheduled to ${exact(at)}.` }
    } catch (error) {
      const faults = faultsIn(error)
      return reschedulePage(visit, await visit.api.emails.get(visit.params.id!), typed, faults)
    }
  })

  pages.post('/emails/:id/suppress', 'suppressions:write', async visit => {
    const { id, recipients } = await visit.api.emails.get(visit.params.id!)
    const recipient = recipients.find(({ n }) => String(n) === visit.form.get('n'))
    if (recipient === undefined || isErased(recipient.address)) {
      throw new PageNotFound('This recipient does not exist.')
    }
    await visit.api.suppressions.create({ address: recipient.address })
    return { to: `/dashboard/emails/${id}`, notice: suppressedText(recipient.address) }
  })
}

function reschedulePage (visit: Visit, email: Email, typed: string, faults: Faults) {
  const url = `/dashboard/emails/${email.id}`
  const page = html`${
    heading(
      'Reschedule',
      null,
      html`<a href="/dashboard/emails">Emails</a> / <a href="${url}">${titleOf(email)}</a>`
    )
  }${faultBox(faults)}
${
    form(
      visit,
      { action: `${url}/reschedule`, class: 'card fields' },
      html`
${timeField({ name: 'scheduled_at', label: 'Send at (UTC)', value: typed, required: true }, faults)}
<div class="actions"><button class="primary">Reschedule</button><a class="button" href="${url}">Cancel</a></div>`
    )
  }`
  return {
    title: 'Reschedule',
    section: 'emails' as const,
    status: faults.summary === null ? 200 : 422,
    page
  }
}

/** Buttons for what the email's state allows. Without its content an email cannot be retried. */
export function actionsFor (
  visit: Visit,
  { id, recipients, created_at: at }: Email,
  contentRetentionMs: number
): Html | null {
  const isKept = visit.nowMs < Date.parse(at) + contentRetentionMs
  const url = `/dashboard/emails/${id}`
  const waiting = recipients.filter(({ status }) => CANCELABLE.has(status))
  const ended = recipients.filter(recipient =>
    isKept && !isErased(recipient.address) && (RETRYABLE.has(recipient.status) || isUndecided(recipient))
  )
  const isScheduled = recipients.some(({ status }) => status === 'scheduled')
  if (waiting.length + ended.length === 0) return null
  const retry = () =>
    actionButton(visit, 'Retry', { action: `${url}/retry`, confirm: confirmRetry(ended), confirmLabel: 'Retry' })
  const cancel = () =>
    actionButton(visit, 'Cancel email', {
      action: `${url}/cancel`,
      confirm: confirmCancel(waiting),
      confirmLabel: 'Cancel email',
      danger: true
    })
  return html`${isScheduled && buttonTo(visit, `${url}/reschedule`, 'Reschedule')}
${ended.length > 0 && retry()}
${waiting.length > 0 && cancel()}`
}

/** In doubt without another attempt: a person decides. */
function isUndecided ({ status, next_attempt_at: next }: EmailRecipient): boolean {
  return status === 'in_doubt' && next === null
}

function confirmRetry (recipients: EmailRecipient[]): string {
  const names = named(recipients.map(({ address }) => address))
  const twice = recipients.some(isUndecided) ? ' Recipients in doubt may get it twice.' : ''
  return `Jetpost sends this email again to ${names}, except to suppressed addresses.${twice}`
}

function confirmCancel (recipients: EmailRecipient[]): string {
  return `This email will not be sent to ${named(recipients.map(({ address }) => address))}. This cannot be undone.`
}

function suppressedText (address: string): string {
  return `${address} gets no email from this account until you remove the suppression.`
}

/** The suppressions of the address now; where there are none and it refuses mail, a button that suppresses it. */
export function suppressionCell (
  visit: Visit,
  id: string,
  { n, address, status, complained_at: complained }: EmailRecipient,
  suppressions: SuppressionsByAddress
): Html | null {
  const standing = suppressions.get(address)!
  const isRefused = status === 'bounced' || status === 'failed' || complained !== null
  if (isErased(address) || (standing.length === 0 && !isRefused && status !== 'suppressed')) return null
  if (isSandbox(address)) return html`<span class="hint">Test address</span>`
  const fields = { n: String(n) }
  const mayAdd = isRefused && heldBack(standing, false) === null
  return html`${
    standing.length > 0 &&
    html`<div><a href="/dashboard/suppressions?address=${encodeURIComponent(address)}">Suppressed</a></div>`
  }
${status === 'suppressed' && standing.length === 0 && html`<span class="hint">No longer suppressed</span>`}
${
    mayAdd &&
    actionButton(visit, 'Suppress', {
      action: `/dashboard/emails/${id}/suppress`,
      fields,
      confirm: suppressedText(address),
      confirmLabel: 'Suppress'
    })
  }`
}
