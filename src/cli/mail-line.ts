import type { AnyFact } from '#streams/catalog.ts'
import type { RecipientFact } from '#streams/email/facts.ts'
import { isErased } from '#streams/email/erase.ts'
import { paint, type Style } from './style.ts'
import { clockText, cut, durationText, oneLine, pad, widthOf } from './text.ts'

/** How a fact about a recipient is shown. */
export interface ShownOutcome {
  sign: string
  name: string
  style: Style
}

const OUTCOMES = new Map<string, ShownOutcome>([
  ['email.delivered', { sign: '✓', name: 'delivered', style: 'green' }],
  ['email.deferred', { sign: '…', name: 'deferred', style: 'yellow' }],
  ['email.bounced', { sign: '✗', name: 'bounced', style: 'red' }],
  ['email.failed', { sign: '✗', name: 'failed', style: 'red' }],
  ['email.in_doubt', { sign: '?', name: 'in doubt', style: 'magenta' }],
  ['email.suppressed', { sign: '-', name: 'suppressed', style: 'dim' }],
  ['email.canceled', { sign: '-', name: 'canceled', style: 'dim' }],
  ['email.opened', { sign: '·', name: 'opened', style: 'dim' }],
  ['email.clicked', { sign: '·', name: 'clicked', style: 'dim' }],
  ['email.complained', { sign: '!', name: 'complained', style: 'red' }],
  ['email.unsubscribed', { sign: '!', name: 'unsubscribed', style: 'yellow' }]
])
const NAME_WIDTH = 'delivered'.length
/** Less of a subject says nothing. */
const SUBJECT_MIN = 12
const ADDRESS_MAX = 48

/** null = not for a line of its own: what leads to another fact. */
export function outcomeOf ({ type }: AnyFact): ShownOutcome | null {
  return OUTCOMES.get(type) ?? null
}

/** `23:09:55 ✓ delivered ada@example.com "It works" 39 ms`, cut to `columns`: of the subject before all else. */
export function mailLine (fact: AnyFact, { sign, name, style }: ShownOutcome, columns: number): string {
  const { time, data } = fact as RecipientFact
  const clock = clockText(Date.parse(time))
  const state = `${sign} ${pad(name, NAME_WIDTH)}`
  const address = cut(isErased(data.to) ? '(erased)' : oneLine(data.to), ADDRESS_MAX)
  const why = oneLine(reasonOf(data))
  const room = columns - widthOf(`${clock} ${state} ${address}  ${why}`) - 2
  const subject = subjectOf(data)
  const quoted = subject === '' || room < Math.min(SUBJECT_MIN, widthOf(subject)) ? '' : `"${cut(subject, room)}"`
  const rest = cut(
    [address, quoted, why].filter(text => text !== '').join(' '),
    columns - widthOf(`${clock} ${state} `)
  )
  return `${paint('dim', clock)} ${paint(style, state)} ${rest}`
}

/** As its event has it; '' for a fact without one. */
function subjectOf (data: RecipientFact['data']): string {
  return 'event' in data ? oneLine(String(JSON.parse(data.event).data?.subject ?? '')) : ''
}

/** The server's words or ours; of a delivery how long it took. */
function reasonOf (data: RecipientFact['data']): string {
  const { reply, error, detail, reason, class: kind, cause, ms, nextAttemptAt: next } = data as
    & Record<string, unknown>
    & { reply?: { text: string } | null, ms?: number, nextAttemptAt?: string | null }
  if (kind === undefined && reason === undefined && ms !== undefined) return durationText(ms)
  const why = reply?.text ?? error ?? detail ?? reason ?? kind ??
    (cause === undefined ? '' : `the ${String(cause)} was lost`)
  return `${next == null ? '' : `again at ${clockText(Date.parse(next))}: `}${String(why)}`
}
