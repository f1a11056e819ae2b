import type {
  EmailClicked,
  EmailComplained,
  EmailOpened,
  EmailUnsubscribed,
  EngagementFact,
  RecipientFact
} from './facts.ts'

/** Engagements of one kind that are kept of one recipient: who reloads a mail for ever, or a robot that follows each
 *  link every day, must not fill the log. */
const OPENS_MAX = 100
const CLICKS_MAX = 200

/** What a recipient has done with the mail so far. */
export interface Engagements {
  opens: number
  clicks: number
  /** By a person. */
  opened: boolean
  clicked: boolean
  complained: boolean
  unsubscribed: boolean
}

export const NO_ENGAGEMENTS: Engagements = {
  opens: 0,
  clicks: 0,
  opened: false,
  clicked: false,
  complained: false,
  unsubscribed: false
}

export function evolveEngagements (engagements: Engagements, fact: EngagementFact): Engagements {
  switch (fact.type) {
    case 'email.opened':
      return { ...engagements, opens: engagements.opens + 1, opened: engagements.opened || !fact.data.machine }
    case 'email.clicked':
      return { ...engagements, clicks: engagements.clicks + 1, clicked: engagements.clicked || !fact.data.machine }
    case 'email.complained':
      return { ...engagements, complained: true }
    case 'email.unsubscribed':
      return { ...engagements, unsubscribed: true }
  }
}

type SharedKeys = 'email' | 'n' | 'request' | 'to' | 'sequence' | 'event' | 'first'

/** What a recipient did, yet without the recipient, id and time. */
export type Engagement =
  | { type: 'email.opened', data: Omit<EmailOpened['data'], SharedKeys> }
  | { type: 'email.clicked', data: Omit<EmailClicked['data'], SharedKeys> }
  | { type: 'email.complained', data: Omit<EmailComplained['data'], SharedKeys> }
  | { type: 'email.unsubscribed', data: Omit<EmailUnsubscribed['data'], SharedKeys> }

/** An engagement's fact, still without recipient, id and time. */
export type EngagementDecision =
  | { type: 'email.opened', data: Omit<EmailOpened['data'], Exclude<SharedKeys, 'first'>> }
  | { type: 'email.clicked', data: Omit<EmailClicked['data'], Exclude<SharedKeys, 'first'>> }
  | Extract<Engagement, { type: 'email.complained' | 'email.unsubscribed' }>

/** The engagement as the fact that follows, or null when it has been said, or said often enough. Opens and clicks count
 *  each time, and the first of a person is told from the others; a complaint and an unsubscribe are said once. */
export function decideEngagement (engagements: Engagements, engagement: Engagement): EngagementDecision | null {
  switch (engagement.type) {
    case 'email.opened':
      return engagements.opens < OPENS_MAX
        ? {
          type: engagement.type,
          data: { ...engagement.data, first: !engagement.data.machine && !engagements.opened }
        }
        : null
    case 'email.clicked':
      return engagements.clicks < CLICKS_MAX
        ? {
          type: engagement.type,
          data: { ...engagement.data, first: !engagement.data.machine && !engagements.clicked }
        }
        : null
    case 'email.complained':
      return engagements.complained ? null : engagement
    case 'email.unsubscribed':
      return engagements.unsubscribed ? null : engagement
  }
}

/** After a server took the mail: a filter follows its links in this time, a person does not. */
const READ_MS_MIN = 2000
/** While it is handed over: filters look into it before the server's reply, and some take their time. Not longer, since
 *  a reply may be recorded late. */
const HANDOVER_MS_MAX = 60_000

/** The engagement as it is to be kept: `machine` too when by the recipient's facts nobody can have read the mail yet at
 *  `atMs` (Unix ms). */
export function withMachine (engagement: Engagement, facts: readonly RecipientFact[], atMs: number): Engagement {
  if (!isTooEarly(facts, atMs)) return engagement
  switch (engagement.type) {
    case 'email.opened':
      return { type: engagement.type, data: { ...engagement.data, machine: true } }
    case 'email.clicked':
      return { type: engagement.type, data: { ...engagement.data, machine: true } }
    case 'email.complained':
      return engagement
    case 'email.unsubscribed':
      return engagement
  }
}

/** By what was so at that moment: the engagement may be recorded much later. */
function isTooEarly (facts: readonly RecipientFact[], atMs: number): boolean {
  const last = facts.findLast(({ time }) => Date.parse(time) <= atMs)
  if (last?.type === 'email.attempted') return atMs - Date.parse(last.time) < HANDOVER_MS_MAX
  return last?.type === 'email.delivered' && atMs - Date.parse(last.time) < READ_MS_MIN
}
