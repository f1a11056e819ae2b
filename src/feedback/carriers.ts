import type { BounceClass } from '#streams/email/classes.ts'
import type { SmtpStage } from '#streams/email/decide.ts'
import { patternOf, readSections } from './sections.ts'

const CARRIERS = new RegExp(
  `@(?:[\\w-]{1,63}\\.){0,2}(?:${readSections('carriers.txt').map(section => patternOf(section).source).join('|')})` +
    '(?![\\w-]|\\.\\w)',
  'i'
)

/** Whether a carrier that calls a subscriber unknown means that his filter refused the message: it says so after DATA,
 *  which sendmail reports as `5.2.0`. A recipient that is gone it refuses at RCPT. `to` = the address, or a text that
 *  holds it. */
export function isFilterOfCarrier (
  why: BounceClass,
  { to, stage, status }: { to: string, stage: SmtpStage | null, status: string | null }
): boolean {
  if (why !== 'userunknown' || status?.slice(2) === '1.1') return false
  return (stage === 'data' || status === '5.2.0') && CARRIERS.test(to)
}
