import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { counted, duration, exact, sentence, withQuery } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { reasonOf, shownAddress } from './email-format.ts'

type EmailEvent = Email['timeline'][number]

/** Entries on one page. */
const PAGE_ENTRIES = 50

/** A timeline entry in words. */
interface TimelineText {
  tone: 'good' | 'bad' | 'warn' | 'busy' | ''
  title: string
  /** Sentences: why, and what comes next. */
  more?: Array<string | null>
}

interface TimelineOptions {
  email: Email
  /** Of one recipient; null = of all. */
  n: number | null
  /** When the fact with this id was stored: the entry links to the email at that time. */
  momentOf(id: string): string | undefined
}

/** All entries, oldest first; of a long timeline the last page, with links to the others. */
export function timeline (visit: Visit, { email, n, momentOf }: TimelineOptions): Html {
  const entries = email.timeline.filter(entry => n === null || entry.n === undefined || entry.n === n)
  const end = Number(visit.query.get('until') ?? NaN)
  const until = Number.isInteger(end) && end > 0 ? Math.min(end, entries.length) : entries.length
  const from = Math.max(0, until - PAGE_ENTRIES)
  const isAlone = email.recipients.length === 1
  const lines = entries.slice(from, until).map(entry => {
    const at = entry.id === undefined ? undefined : momentOf(entry.id)
    return line(entry, { email, isAlone, href: at === undefined ? null : withQuery(visit, { as_of: at, until: null }) })
  })
  return html`<ol class="timeline" start="${from + 1}">${lines}</ol>${
    entries.length > PAGE_ENTRIES && pageLinks(visit, from, until, entries.length)
  }`
}

function pageLinks (visit: Visit, from: number, until: number, all: number): Html {
  const link = (to: number, text: string) =>
    html`<a class="button" href="${withQuery(visit, { until: to >= all ? null : String(to) })}">${text}</a>`
  const where = html`<span class="hint">${from + 1} to ${until} of ${all}</span>`
  return html`<nav class="pager" aria-label="Pages of the timeline">${from > 0 && link(from, 'Earlier')}${where}${
    until < all && link(until + PAGE_ENTRIES, 'Later')
  }</nav>`
}

function line (
  entry: EmailEvent,
  { email, isAlone, href }: { email: Email, isAlone: boolean, href: string | null }
): Html {
  const { tone, title, more = [] } = textOf(entry, email)
  const sinceMs = Date.parse(entry.time) - Date.parse(email.created_at)
  const exactly = html`<span class="at">${exact(entry.time)}</span>`
  const clock = href === null ? exactly : html`<a href="${href}" title="See the email at this time">${exactly}</a>`
  const whom = isAlone || entry.recipient === undefined ? null : shownAddress(entry.recipient)
  const sentences = more.filter(text => text !== null && text !== '').join(' ')
  const wire = transaction(entry)
  const reply = replyText(entry)
  return html`<li class="${tone}"><p class="entry"><strong>${title}</strong>${
    whom !== null && html` <span class="whom">${whom}</span>`
  }</p>
${sentences !== '' && html`<p>${sentences}</p>`}${reply !== null && html`<p class="reply"><code>${reply}</code></p>`}
<p class="hint">${clock}${sinceMs > 0 && ` · after ${duration(sinceMs)}`}${wire !== '' && ` · ${wire}`}</p></li>`
}

/** What the mail catcher answers, also for test keys and addresses of the sandbox: for the sender it is a relay. */
const CAUGHT = /\bcaught as msg_[0-9a-z]{26}\b/

function textOf (entry: EmailEvent, email: Email): TimelineText {
  const { type, host, next_attempt_at: next, scheduled_at: at } = entry
  const nextAttempt = next == null ? null : `Next attempt at ${exact(next)}.`
  switch (type) {
    case 'email.requested':
      return accepted(email)
    case 'email.attempted':
      return { tone: '', title: `Attempt ${entry.attempt} started` }
    case 'email.delivered':
      if (CAUGHT.test(entry.response ?? '')) {
        return { tone: 'good', title: 'Caught', more: ['The built-in mail catcher keeps it. Nobody else gets it.'] }
      }
      return {
        tone: 'good',
        title: withHost('Delivered to', host) ?? 'Delivered',
        more: [entry.via === 'relay' && entry.response != null ? 'The relay accepted it and passes it on.' : null]
      }
    case 'email.deferred':
      if (entry.untried === true) return { tone: 'warn', title: 'Deferred', more: [entry.error ?? null, nextAttempt] }
      return {
        tone: 'warn',
        title: withHost('Deferred by', host) ?? 'Deferred',
        more: [reasonOf(entry.class), nextAttempt]
      }
    case 'email.bounced':
      return bounced(entry)
    case 'email.failed':
      return { tone: 'bad', title: 'Failed', more: [FAILED[entry.reason ?? ''] ?? null, detailOf(entry)] }
    case 'email.in_doubt':
      return {
        tone: 'warn',
        title: 'In doubt',
        more: [IN_DOUBT[entry.cause ?? ''] ?? null, entry.held === true ? HELD : nextAttempt]
      }
    case 'email.suppressed':
      return {
        tone: 'warn',
        title: 'Not sent',
        more: [`The address is suppressed${SUPPRESSED[entry.reason ?? ''] ?? '.'}`]
      }
    case 'email.rescheduled':
      return {
        tone: 'busy',
        title: 'Rescheduled',
        more: [at === undefined ? null : `It will be sent at ${exact(at)}.`]
      }
    case 'email.canceled':
      return { tone: '', title: 'Canceled', more: ['It will not be sent.'] }
    case 'email.retry_requested':
      return { tone: 'busy', title: 'Retry requested' }
    default:
      return laterText(entry)
  }
}

/** What happens after the delivery. */
function laterText (entry: EmailEvent): TimelineText {
  switch (entry.type) {
    case 'email.opened':
      return engagement(entry, 'Opened', 'Opened by a program')
    case 'email.clicked':
      return engagement(entry, 'Clicked', 'Clicked by a program')
    case 'email.complained':
      return {
        tone: 'bad',
        title: 'Reported as spam',
        more: [entry.feedback === undefined ? null : `The report calls it “${entry.feedback}”.`]
      }
    case 'email.unsubscribed':
      return { tone: 'warn', title: 'Unsubscribed', more: [UNSUBSCRIBED[entry.by ?? ''] ?? null] }
    case 'email.erased':
      return {
        tone: '',
        title: 'Erased',
        more: ['The address and all texts about it were deleted. Statistics stay.']
      }
    default:
      return { tone: '', title: entry.type }
  }
}

function accepted ({ recipients, test, scheduled_at: at, timeline }: Email): TimelineText {
  // After it was rescheduled, its first time is not known.
  const isFirstTime = at !== null && !timeline.some(({ type }) => type === 'email.rescheduled')
  return {
    tone: '',
    title: 'Accepted',
    more: [
      `For ${counted(recipients.length, 'recipient')}.`,
      isFirstTime ? `It will be sent at ${exact(at)}.` : null,
      test ? 'Sent with a test key: it only goes to the built-in mail catcher.' : null
    ]
  }
}

function withHost (words: string, host: string | null | undefined): string | null {
  return host == null ? null : `${words} ${host}`
}

const FAILED: Record<string, string> = {
  expired: 'No server gave a final answer before the time for retries was over.',
  unsendable: 'It could not be sent.'
}
const IN_DOUBT: Record<string, string> = {
  line: 'The connection broke before the server answered. The server may have accepted it.',
  sender: 'The sender stopped before it recorded the answer. The email may have arrived.'
}
const HELD = 'Jetpost does not send it again by itself. Retry it if a second copy does no harm.'
const SUPPRESSED: Record<string, string> = {
  bounce: ' because email to it bounced.',
  complaint: ' because the recipient reported email as spam.',
  unsubscribe: ' because the recipient unsubscribed.',
  manual: ' manually.'
}
const UNSUBSCRIBED: Record<string, string> = {
  'one-click': "With the mail program's unsubscribe button.",
  page: 'On the unsubscribe page.',
  mail: 'By email.',
  report: 'In a feedback report.'
}

function bounced ({ report, host, class: kind }: EmailEvent): TimelineText {
  const by = host == null ? '' : ` by ${host}`
  if (report == null) return { tone: 'bad', title: `Bounced${by}`, more: [reasonOf(kind)] }
  return { tone: 'bad', title: 'Bounced', more: [`A bounce report says that it was rejected${by}.`, reasonOf(kind)] }
}

function engagement ({ machine }: EmailEvent, byPerson: string, byProgram: string): TimelineText {
  if (machine !== true) return { tone: 'good', title: byPerson }
  return {
    tone: '',
    title: byProgram,
    more: ['Probably a proxy, a scanner or a prefetch. It is not counted.']
  }
}

function detailOf ({ detail }: EmailEvent): string | null {
  return detail == null || detail === '' ? null : sentence(detail)
}

/** The server's reply, or why there was none; for a click, its link. */
function replyText (
  { smtp_code: code, enhanced_code: enhanced, response, error, url, status, untried }: EmailEvent
): string | null {
  if (url !== undefined) return url
  if (untried === true) return null
  if (code == null) return response ?? error ?? status ?? null
  // A reply usually begins with its code. After an erasure the code alone is left.
  return response?.startsWith(String(code)) === true
    ? response
    : [code, enhanced, response].filter(part => part != null && part !== '').join(' ')
}

/** The SMTP transaction of an entry in a few words. */
function transaction (entry: EmailEvent): string {
  const { type, attempt, stage, ms, host, address, response, message_id: messageId, route, source } = entry
  if (entry.untried === true) return ''
  if (type === 'email.attempted') return messageId ?? ''
  const met = host != null || response != null
  return [
    attempt === undefined || type === 'email.failed' ? null : `attempt ${attempt}`,
    route === undefined ? null : `route ${route}`,
    source === undefined ? null : `from ${source}`,
    address ?? null,
    stage === undefined ? null : `at ${STAGES[stage] ?? stage}`,
    met ? secured(entry) : null,
    !met || ms === undefined ? null : `${duration(ms)} to the reply`
  ].filter(text => text !== null).join(' · ')
}

function secured ({ tls, plain, stage }: EmailEvent): string | null {
  // Before the connection stands there is no TLS to report.
  if (tls === undefined || (tls === null && stage === 'connect')) return null
  return tls === null
    ? `without TLS${PLAIN[plain ?? ''] ?? ''}`
    : `${tls.version}, ${tls.cipher}${tls.verified ? '' : ', certificate not verified'}`
}

const PLAIN: Record<string, string> = {
  not_offered: ', which the server does not offer',
  refused: ', which the server refused',
  broken: ', which failed with this server',
  policy: ', which SMTP_URL turns off'
}

const STAGES: Record<string, string> = {
  connect: 'the connection',
  ehlo: 'EHLO',
  mail: 'MAIL FROM',
  rcpt: 'RCPT TO',
  data: 'DATA'
}
