import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { counted, exact, duration, withQuery } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { reasonOf, shownAddress } from './email-format.ts'

type TimelineEntry = Email['timeline'][number]

/** Of very long timelines as many are on one page. */
const PART = 50

/** What a fact says. */
interface TimelineText {
  tone: 'good' | 'bad' | 'warn' | 'busy' | ''
  title: string
  /** Why, and what comes next, in sentences. */
  more?: Array<string | null>
}

interface TimelineOptions {
  email: Email
  /** One recipient's facts only; null = everybody's. */
  n: number | null
  /** When a fact was known, by its id: to look at the email as it was then. */
  momentOf(id: string): string | undefined
}

/** All that happened, oldest first; of very much the last part, and the way to those before. */
export function timeline (visit: Visit, { email, n, momentOf }: TimelineOptions): Html {
  const entries = email.timeline.filter(entry => n === null || entry.n === undefined || entry.n === n)
  const wish = Number(visit.query.get('until') ?? NaN)
  const until = Number.isInteger(wish) && wish > 0 ? Math.min(wish, entries.length) : entries.length
  const from = Math.max(0, until - PART)
  const isAlone = email.recipients.length === 1
  const lines = entries.slice(from, until).map(entry => {
    const at = entry.id === undefined ? undefined : momentOf(entry.id)
    return line(entry, { email, isAlone, href: at === undefined ? null : withQuery(visit, { as_of: at, until: null }) })
  })
  return html`<ol class="timeline" start="${from + 1}">${lines}</ol>${
    entries.length > PART && parts(visit, from, until, entries.length)
  }`
}

function parts (visit: Visit, from: number, until: number, all: number): Html {
  const link = (to: number, text: string) =>
    html`<a class="button" href="${withQuery(visit, { until: to >= all ? null : String(to) })}">${text}</a>`
  const where = html`<span class="hint">${from + 1} to ${until} of ${all}</span>`
  return html`<nav class="pager" aria-label="Parts of the timeline">${from > 0 && link(from, 'Before')}${where}${
    until < all && link(until + PART, 'After')
  }</nav>`
}

function line (
  entry: TimelineEntry,
  { email, isAlone, href }: { email: Email, isAlone: boolean, href: string | null }
): Html {
  const { tone, title, more = [] } = textOf(entry, email)
  const sinceMs = Date.parse(entry.time) - Date.parse(email.created_at)
  const exactly = html`<span class="at">${exact(entry.time)}</span>`
  const clock = href === null ? exactly : html`<a href="${href}" title="The email as it was known then">${exactly}</a>`
  const whom = isAlone || entry.recipient === undefined ? null : shownAddress(entry.recipient)
  const sentences = more.filter(text => text !== null && text !== '').join(' ')
  const wire = transaction(entry)
  const said = replyText(entry)
  return html`<li class="${tone}"><p class="told"><strong>${title}</strong>${
    whom !== null && html` <span class="whom">${whom}</span>`
  }</p>
${sentences !== '' && html`<p>${sentences}</p>`}${said !== null && html`<p class="said"><code>${said}</code></p>`}
<p class="hint">${clock}${sinceMs > 0 && ` · after ${duration(sinceMs)}`}${wire !== '' && ` · ${wire}`}</p></li>`
}

function textOf (entry: TimelineEntry, email: Email): TimelineText {
  const { type, host, next_attempt_at: next, scheduled_at: at } = entry
  const again = next == null ? null : `The next attempt is at ${exact(next)}.`
  switch (type) {
    case 'email.requested':
      return accepted(email)
    case 'email.attempted':
      return { tone: '', title: `Attempt ${entry.attempt} began` }
    case 'email.delivered':
      return {
        tone: 'good',
        title: withHost('Delivered to', host) ?? 'Delivered',
        more: [entry.via === 'relay' ? 'The relay took it to pass it on.' : null]
      }
    case 'email.deferred':
      return { tone: 'warn', title: withHost('Put off by', host) ?? 'Put off', more: [reasonOf(entry.class), again] }
    case 'email.bounced':
      return bounced(entry)
    case 'email.failed':
      return { tone: 'bad', title: 'Given up', more: [FAILED[entry.reason ?? ''] ?? null, withFullStop(entry.detail)] }
    case 'email.in_doubt':
      return {
        tone: 'warn',
        title: 'In doubt',
        more: [DOUBTED[entry.cause ?? ''] ?? null, entry.held === true ? HELD : again]
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
        title: 'Moved to another time',
        more: [at === undefined ? null : `It is to be sent at ${exact(at)}.`]
      }
    case 'email.canceled':
      return { tone: '', title: 'Canceled', more: ['It will not be sent.'] }
    case 'email.retry_requested':
      return { tone: 'busy', title: 'To be sent again', more: ['Somebody asked for it.'] }
    case 'email.opened':
      return visited(entry, 'Opened', 'Opened by a program')
    case 'email.clicked':
      return visited(entry, 'Clicked', 'Link followed by a program')
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
        more: ['This person was forgotten: address and words are gone, what is counted stays.']
      }
    default:
      return { tone: '', title: type }
  }
}

function accepted ({ recipients, test, scheduled_at: at, timeline }: Email): TimelineText {
  // Once it was moved, its first time is known no more.
  const isFirstTime = at !== null && !timeline.some(({ type }) => type === 'email.rescheduled')
  return {
    tone: '',
    title: 'Accepted',
    more: [
      `For ${counted(recipients.length, 'recipient')}.`,
      isFirstTime ? `It is to be sent at ${exact(at)}.` : null,
      test ? 'Asked with a test key: it goes to the built-in catcher only.' : null
    ]
  }
}

function withHost (words: string, host: string | null | undefined): string | null {
  return host == null ? null : `${words} ${host}`
}

const FAILED: Record<string, string> = {
  expired: 'No server gave a final answer in the time there was.',
  unsendable: 'It could not be sent.'
}
const DOUBTED: Record<string, string> = {
  line: 'The line broke before the server answered: it may have the mail.',
  sender: 'The sender stopped before the answer was recorded: the mail may have arrived.'
}
const HELD = 'No further copy goes out by itself: send it again if you take the risk of a second one.'
const SUPPRESSED: Record<string, string> = {
  bounce: ' because mail to it bounced.',
  complaint: ' because its owner reported mail as spam.',
  unsubscribe: ' because its owner unsubscribed.',
  manual: ' by hand.'
}
const UNSUBSCRIBED: Record<string, string> = {
  'one-click': 'By the button of a mail program.',
  page: 'On the unsubscribe page.',
  mail: 'By mail.',
  report: 'In a feedback report.'
}

function bounced ({ report, host, class: kind }: TimelineEntry): TimelineText {
  const by = host == null ? '' : ` by ${host}`
  if (report == null) return { tone: 'bad', title: `Rejected for good${by}`, more: [reasonOf(kind)] }
  return { tone: 'bad', title: 'Came back', more: [`A report says that it was rejected${by}.`, reasonOf(kind)] }
}

function visited ({ machine }: TimelineEntry, byPerson: string, byProgram: string): TimelineText {
  if (machine !== true) return { tone: 'good', title: byPerson }
  return {
    tone: '',
    title: byProgram,
    more: ['A proxy, a scanner or a prefetch, as far as can be told; it is not counted.']
  }
}

function withFullStop (text: string | null | undefined): string | null {
  return text == null || text === '' ? null : /[.!?]$/.test(text) ? text : `${text}.`
}

/** The very words of a server, or why there were none; the link that was followed. */
function replyText (
  { smtp_code: code, enhanced_code: enhanced, response, error, url, status }: TimelineEntry
): string | null {
  if (url !== undefined) return url
  if (code == null) return response ?? error ?? status ?? null
  // A server's words begin with its code, as a rule; after an erasure there are none, and the code alone is left.
  return response?.startsWith(String(code)) === true
    ? response
    : [code, enhanced, response].filter(part => part != null && part !== '').join(' ')
}

/** How the words came to us. */
function transaction (entry: TimelineEntry): string {
  const { type, attempt, stage, ms, host, response, message_id: messageId } = entry
  if (type === 'email.attempted') return messageId ?? ''
  const met = host != null || response != null
  return [
    attempt === undefined || type === 'email.failed' ? null : `attempt ${attempt}`,
    stage === undefined ? null : `at ${STAGES[stage] ?? stage}`,
    met ? secured(entry) : null,
    !met || ms === undefined ? null : `${duration(ms)} to the reply`
  ].filter(text => text !== null).join(' · ')
}

function secured ({ tls, stage }: TimelineEntry): string | null {
  // No TLS is no news before it could be spoken of.
  if (tls === undefined || (tls === null && stage === 'connect')) return null
  return tls === null
    ? 'without TLS'
    : `${tls.version}, ${tls.cipher}${tls.verified ? '' : ', certificate not verified'}`
}

const STAGES: Record<string, string> = {
  connect: 'the connection',
  ehlo: 'EHLO',
  mail: 'MAIL FROM',
  rcpt: 'RCPT TO',
  data: 'DATA'
}
