import { Refusal } from '../define.ts'
import { EVENT_TYPES, type EventType } from './facts.ts'

/** Endpoints an account may have: those of one partition, about an eighth, and a cursor must fit one atomic append (1,000 messages). */
export const WEBHOOKS_MAX = 1000
const URL_LENGTH_MAX = 2048

export interface NewWebhook {
  url: string
  events: EventType[]
}

/** Where callbacks may go, as far as the text tells; the address is checked when the connection is made. `plain` = http is allowed. Source:
 *  contract, "Webhooks". */
export function urlFault (text: string, plain: boolean): Refusal | null {
  const url = text.length > URL_LENGTH_MAX || text.trim() !== text ? null : URL.parse(text)
  if (url === null) return new Refusal('invalid_url', `A webhook's URL is absolute and has at most ${URL_LENGTH_MAX} characters.`)
  if (url.protocol !== 'https:' && !(plain && url.protocol === 'http:')) {
    return new Refusal('invalid_url', plain ? "A webhook's URL starts with https:// or http://." : "A webhook's URL starts with https://.")
  }
  return url.username !== '' || url.password !== '' ? new Refusal('invalid_url', "A webhook's URL carries no user name or password.") : null
}

/** A subset of spec 6.1's types: at least one, none twice. */
export function eventsFault (events: readonly string[]): Refusal | null {
  const known = events.every(name => (EVENT_TYPES as readonly string[]).includes(name))
  const fine = known && events.length > 0 && new Set(events).size === events.length
  return fine ? null : new Refusal('invalid_events', `Events are one or more of ${EVENT_TYPES.join(', ')}, none twice.`)
}

/** `count` = the endpoints the account already has. */
export function countFault (count: number): Refusal | null {
  return count < WEBHOOKS_MAX ? null : new Refusal('too_many_webhooks', `An account has at most ${WEBHOOKS_MAX} webhooks.`)
}
