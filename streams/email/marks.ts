import type { EmailClicked, EmailComplained, EmailOpened, EmailUnsubscribed, MarkFact, RecipientFact } from './facts.ts'

/** Marks of one kind that are kept of one recipient: who reloads a mail for ever, or a robot that follows each link every day, must not fill the log. */
const OPENS_MAX = 100
const CLICKS_MAX = 200

/** What a recipient has done with the mail so far. */
export interface Marks {
  opens: number
  clicks: number
  /** By a person. */
  opened: boolean
  clicked: boolean
  complained: boolean
  unsubscribed: boolean
}

export const NO_MARKS: Marks = { opens: 0, clicks: 0, opened: false, clicked: false, complained: false, unsubscribed: false }

export function evolveMarks (marks: Marks, fact: MarkFact): Marks {
  switch (fact.type) {
    case 'email.opened': return { ...marks, opens: marks.opens + 1, opened: marks.opened || !fact.data.machine }
    case 'email.clicked': return { ...marks, clicks: marks.clicks + 1, clicked: marks.clicked || !fact.data.machine }
    case 'email.complained': return { ...marks, complained: true }
    case 'email.unsubscribed': return { ...marks, unsubscribed: true }
  }
}

type Shared = 'email' | 'n' | 'request' | 'to' | 'sequence' | 'event' | 'first'

/** What a recipient did, yet without the recipient, id and time. */
export type Mark =
  | { type: 'email.opened', data: Omit<EmailOpened['data'], Shared> }
  | { type: 'email.clicked', data: Omit<EmailClicked['data'], Shared> }
  | { type: 'email.complained', data: Omit<EmailComplained['data'], Shared> }
  | { type: 'email.unsubscribed', data: Omit<EmailUnsubscribed['data'], Shared> }

/** A mark's fact yet without the recipient, id and time. */
export type MarkDecision =
  | { type: 'email.opened', data: Omit<EmailOpened['data'], Exclude<Shared, 'first'>> }
  | { type: 'email.clicked', data: Omit<EmailClicked['data'], Exclude<Shared, 'first'>> }
  | Extract<Mark, { type: 'email.complained' | 'email.unsubscribed' }>

/** The mark as the fact that follows, or null when it has been said, or said often enough. Opens and clicks count each time, and the first of a person is told
 *  from the others; a complaint and an unsubscribe are said once. */
export function decideMark (marks: Marks, mark: Mark): MarkDecision | null {
  switch (mark.type) {
    case 'email.opened': return marks.opens < OPENS_MAX ? { type: mark.type, data: { ...mark.data, first: !mark.data.machine && !marks.opened } } : null
    case 'email.clicked': return marks.clicks < CLICKS_MAX ? { type: mark.type, data: { ...mark.data, first: !mark.data.machine && !marks.clicked } } : null
    case 'email.complained': return marks.complained ? null : mark
    case 'email.unsubscribed': return marks.unsubscribed ? null : mark
  }
}

/** After a server took the mail: a filter follows its links in this time, a person does not. */
const READ_MS_MIN = 2000
/** While it is handed over: filters look into it before the server's reply, and some take their time. Not longer, since a reply may be recorded late. */
const HANDOVER_MS_MAX = 60_000

/** The mark as it is to be kept: `machine` too when by the recipient's facts nobody can have read the mail yet at `atMs` (Unix ms). */
export function withMachine (mark: Mark, facts: readonly RecipientFact[], atMs: number): Mark {
  if (!isTooEarly(facts, atMs)) return mark
  switch (mark.type) {
    case 'email.opened': return { type: mark.type, data: { ...mark.data, machine: true } }
    case 'email.clicked': return { type: mark.type, data: { ...mark.data, machine: true } }
    case 'email.complained': return mark
    case 'email.unsubscribed': return mark
  }
}

/** By what was so at that moment: the mark may be recorded much later. */
function isTooEarly (facts: readonly RecipientFact[], atMs: number): boolean {
  const last = facts.findLast(({ time }) => Date.parse(time) <= atMs)
  if (last?.type === 'email.attempted') return atMs - Date.parse(last.time) < HANDOVER_MS_MAX
  return last?.type === 'email.delivered' && atMs - Date.parse(last.time) < READ_MS_MIN
}
