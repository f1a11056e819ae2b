import { parseDomain } from '../address.ts'
import { Refusal } from '../define.ts'
import type { Domain } from '../directory.ts'
import { SANDBOX_DOMAIN } from '../key/decide.ts'
import type { DomainStatus, RecordState } from './facts.ts'
import { judge, type Purpose, type WantedRecord } from './records.ts'

const DOMAINS_MAX = 1000
/** Names of records are longer than the domain's, and DNS ends at 253. */
const NAME_LENGTH_MAX = 200

/** The domain in lower-case A-labels when an account may own it. */
export function ownableName (text: string): string | Refusal {
  const name = parseDomain(text)
  if (name !== null && name !== SANDBOX_DOMAIN && name.length <= NAME_LENGTH_MAX) return name
  return new Refusal('invalid_domain', `A domain to send from is a host name of two or more labels, like example.com, with at most ${NAME_LENGTH_MAX} characters.`)
}

/** `count` = the domains the account already has. */
export function countFault (count: number): Refusal | null {
  return count < DOMAINS_MAX ? null : new Refusal('too_many_domains', `An account has at most ${DOMAINS_MAX} domains.`)
}

/** Whether mail may leave from a domain that its account owns, where verified ones are `required`. undefined = the sandbox, which stands in no
 *  directory: whose a domain is has been asked before. */
export function isVerifiedEnough (domain: Pick<Domain, 'status'> | undefined, required: boolean): boolean {
  return !required || domain === undefined || domain.status === 'verified'
}

/** What DNS said: TXT records, or the target of a CNAME. A purpose that is left out: it did not say. */
export type Look = Partial<Record<Purpose, string[]>>

/** What a look changes. */
export interface Checked {
  status: DomainStatus
  records: RecordState[]
  failingSince: string | null
}

const HOUR_MS = 3_600_000
/** A verified domain stays so while its records have been wrong for less: DNS is moved, mistyped and mended, and mail must not stop for that. */
const WRONG_MAX_MS = 72 * HOUR_MS

/** What the domain is after a look; null when that is nothing new, or DNS did not say enough to tell. */
export function afterLook (domain: Domain, wanted: WantedRecord[], look: Look, nowMs: number): Checked | null {
  if (wanted.some(({ purpose, required }) => required && look[purpose] === undefined)) return null
  const records = wanted.flatMap(record => {
    const found = look[record.purpose]
    return found === undefined ? domain.records.filter(({ purpose }) => purpose === record.purpose) : judge(record, found)
  })
  const right = wanted.every(({ purpose, required }) => !required || records.some(record => record.purpose === purpose && record.state === 'ok'))
  const checked = { ...standing(domain, right, nowMs), records }
  return isSame(checked, domain) ? null : checked
}

function standing ({ status, failingSince }: Domain, right: boolean, nowMs: number): Pick<Checked, 'status' | 'failingSince'> {
  if (right) return { status: 'verified', failingSince: null }
  if (status !== 'verified') return { status, failingSince }
  if (failingSince === null) return { status, failingSince: new Date(nowMs).toISOString() }
  return { status: nowMs - Date.parse(failingSince) < WRONG_MAX_MS ? 'verified' : 'failed', failingSince }
}

function isSame (a: Checked, b: Checked): boolean {
  const text = ({ status, failingSince, records }: Checked) =>
    JSON.stringify([status, failingSince, records.map(({ purpose, state, found }) => [purpose, state, found])])
  return text(a) === text(b)
}

/** What one process remembers of its looks at a domain. */
export interface Watch {
  /** Unix ms of the last look; null before the first. */
  lookedMs: number | null
  /** Whether DNS said enough then. */
  told: boolean
  /** When the process first saw the domain, Unix ms. */
  sinceMs: number
  /** Drawn once, in [0, 1): spreads the looks of many domains, and of many processes. */
  luck: number
}

const MINUTE_MS = 60_000

/** Unix ms of the next look. A new domain is looked at each minute, then at gaps of a tenth of its age up to an hour; not at once, since a resolver would
 *  remember that there was nothing. A verified one every 6 to 12 h, hourly while something is wrong; a failed one daily. */
export function nextLookMs ({ status, failingSince, createdAt }: Domain, { lookedMs, told, sinceMs, luck }: Watch): number {
  if (status === 'pending') {
    const createdMs = Date.parse(createdAt)
    const fromMs = lookedMs ?? createdMs
    return fromMs + Math.min(HOUR_MS, Math.max(MINUTE_MS, (fromMs - createdMs) / 10))
  }
  const wide = status === 'failed' ? 24 * HOUR_MS : (6 + 6 * luck) * HOUR_MS
  const gapMs = status === 'verified' && (failingSince !== null || !told) ? HOUR_MS : wide
  return lookedMs === null ? sinceMs + luck * gapMs : lookedMs + gapMs
}
