import { isErased } from '#streams/email/erase.ts'
import { heldBack, isSandbox } from '#streams/suppression/decide.ts'
import type { StandingReason } from '#streams/suppression/facts.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { act, counted, exact, faultBox, faultsIn, form, heading, NO_FAULTS, type Faults } from '../parts.ts'
import { Missing, type Pages, type Visit } from '../visit.ts'
import { named, titleOf } from './email-words.ts'
import { timeField, typedTime, utcTime } from '../times.ts'

type Recipient = Email['recipients'][number]
/** Why addresses get no mail, as the log says now. */
export type Standings = ReadonlyMap<string, readonly StandingReason[]>

const CANCELABLE: ReadonlySet<string> = new Set(['scheduled', 'queued', 'deferred'])
const RETRYABLE: ReadonlySet<string> = new Set(['bounced', 'failed', 'suppressed'])

/** What somebody can still do about an email. */
export function emailActions (pages: Pages): void {
  pages.post('/emails/:id/cancel', async visit => {
    const { id, canceled, gone } = await visit.api.emails.cancel(visit.params.id!)
    const late = gone.length === 0 ? '' : ` It came too late for ${named(gone.map(({ address }) => address))}.`
    return { to: `/dashboard/emails/${id}`, notice: `Canceled for ${counted(canceled.length, 'recipient')}.${late}` }
  })

  pages.post('/emails/:id/retry', async visit => {
    const { id, retried, others } = await visit.api.emails.retry(visit.params.id!)
    const rest = others.length === 0 ? '' : ` ${counted(others.length, 'other is', 'others are')} left as they were.`
    return {
      to: `/dashboard/emails/${id}`,
      notice: `On its way again to ${named(retried.map(({ address }) => address))}.${rest}`
    }
  })

  pages.get('/emails/:id/reschedule', async visit => {
    const email = await visit.api.emails.get(visit.params.id!)
    return rescheduling(visit, email, typedTime(email.scheduled_at), NO_FAULTS)
  })

  pages.post('/emails/:id/reschedule', async visit => {
    const typed = visit.form.get('scheduled_at') ?? ''
    try {
      const { id, scheduled_at: at } = await visit.api.emails.reschedule(visit.params.id!, {
        scheduled_at: utcTime(typed)
      })
      return { to: `/dashboard/emails/${id}`, notice: `Moved to ${exact(at)}.` }
    } catch (error) {
      const faults = faultsIn(error)
      return rescheduling(visit, await visit.api.emails.get(visit.params.id!), typed, faults)
    }
  })

  pages.post('/emails/:id/suppress', async visit => {
    const { id, recipients } = await visit.api.emails.get(visit.params.id!)
    const recipient = recipients.find(({ n }) => String(n) === visit.form.get('n'))
    if (recipient === undefined || isErased(recipient.address)) throw new Missing('This email has no such recipient.')
    await visit.api.suppressions.create({ address: recipient.address })
    return { to: `/dashboard/emails/${id}`, notice: noMore(recipient.address) }
  })
}

function rescheduling (visit: Visit, email: Email, typed: string, faults: Faults) {
  const url = `/dashboard/emails/${email.id}`
  const page = html`${
    heading(
      'Send at another time',
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
<div class="actions"><button class="primary">Move it</button><a class="button" href="${url}">Leave it</a></div>`
    )
  }`
  return {
    title: 'Send at another time',
    section: 'emails' as const,
    status: faults.summary === null ? 200 : 422,
    page
  }
}

/** Buttons for what makes sense as the email stands. Content that is gone cannot be sent again. */
export function actionsFor (
  visit: Visit,
  { id, recipients, created_at: at }: Email,
  contentRetentionMs: number
): Html | null {
  const isKept = visit.nowMs < Date.parse(at) + contentRetentionMs
  const url = `/dashboard/emails/${id}`
  const waiting = recipients.filter(({ status }) => CANCELABLE.has(status))
  const ended = recipients.filter(recipient =>
    isKept && !isErased(recipient.address) && (RETRYABLE.has(recipient.status) || isHeld(recipient))
  )
  const isScheduled = recipients.some(({ status }) => status === 'scheduled')
  if (waiting.length + ended.length === 0) return null
  return html`${isScheduled && html`<a class="button" href="${url}/reschedule">Send at another time</a>`}
${
    ended.length > 0 &&
    act(visit, 'Send again', { action: `${url}/retry`, confirm: askAgain(ended), confirmLabel: 'Send again' })
  }
${
    waiting.length > 0 &&
    act(visit, 'Cancel the email', {
      action: `${url}/cancel`,
      confirm: askCancel(waiting),
      confirmLabel: 'Cancel the email',
      danger: true
    })
  }`
}

/** In doubt with nothing to come: a person decides. */
function isHeld ({ status, next_attempt_at: next }: Recipient): boolean {
  return status === 'in_doubt' && next === null
}

function askAgain (recipients: Recipient[]): string {
  const doubted = recipients.some(isHeld) ? ' Where it is in doubt, it may arrive twice.' : ''
  return `It is sent again to ${
    named(recipients.map(({ address }) => address))
  }. Addresses that are still suppressed are left out.${doubted}`
}

function askCancel (recipients: Recipient[]): string {
  return `It will not be sent to ${named(recipients.map(({ address }) => address))}. This cannot be undone.`
}

function noMore (address: string): string {
  return `${address} gets no mail of this account any more, until it is taken off the suppressions.`
}

/** What stands against the address now; where nothing does, and it takes no mail: no more of it. */
export function suppressionCell (
  visit: Visit,
  id: string,
  { n, address, status, complained_at: complained }: Recipient,
  standings: Standings
): Html | null {
  const standing = standings.get(address)!
  const isRefused = status === 'bounced' || status === 'failed' || complained !== null
  if (isErased(address) || (standing.length === 0 && !isRefused && status !== 'suppressed')) return null
  if (isSandbox(address)) return html`<span class="hint">A test address</span>`
  const fields = { n: String(n) }
  const mayAdd = isRefused && heldBack(standing, false) === null
  return html`${
    standing.length > 0 &&
    html`<div><a href="/dashboard/suppressions?address=${encodeURIComponent(address)}">Suppressed</a></div>`
  }
${status === 'suppressed' && standing.length === 0 && html`<span class="hint">Suppressed no more</span>`}
${
    mayAdd &&
    act(visit, 'Suppress', {
      action: `/dashboard/emails/${id}/suppress`,
      fields,
      confirm: noMore(address),
      confirmLabel: 'Suppress'
    })
  }`
}
