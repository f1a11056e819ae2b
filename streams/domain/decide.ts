import { FIRST_ACCOUNT } from '../account/facts.ts'
import { parseDomain } from '../address.ts'
import { Refusal, type UnstampedOf } from '../define.ts'
import type { DomainEntry } from '../directory.ts'
import type { SendDefaults } from '../email/defaults.ts'
import { SANDBOX_DOMAIN } from '../key/decide.ts'
import {
  DomainAdded,
  DomainChanged,
  DomainChecked,
  domainFacts,
  DomainKeysResealed,
  DomainKeysRetired,
  DomainKeysSwitched,
  DomainRemoved,
  DomainRotationStarted,
  type DkimKey,
  type DomainStatus,
  type RecordState,
  type SpfState
} from './facts.ts'
import { keptKeys, turned, type KeyTurn } from './keys.ts'
import { judge, wantedRecords, type WantedRecord } from './records.ts'

const DOMAINS_MAX = 1000
/** Names of records are longer than the domain's, and DNS ends at 253. */
const NAME_LENGTH_MAX = 200

/** What the name of a domain must do that an account may own. */
export const MUST_BE_DOMAIN = `be a domain like example.com, of at most ${NAME_LENGTH_MAX} characters`

/** The domain in lower-case A-labels when an account may own it. */
export function ownableName (text: string): string | Refusal {
  const name = parseDomain(text)
  if (name !== null && name !== SANDBOX_DOMAIN && name.length <= NAME_LENGTH_MAX) return name
  return new Refusal('invalid_domain', `name must ${MUST_BE_DOMAIN}.`)
}

/** `count` = the domains the account already has. */
export function countFault (count: number): Refusal | null {
  return count < DOMAINS_MAX
    ? null
    : new Refusal('too_many_domains', `An account can have at most ${DOMAINS_MAX} domains: delete one first.`)
}

export type DomainDecision = UnstampedOf<typeof domainFacts[number]>

/** Why a name may not become a domain of an account, which has it already as `owned`, or has `count` others. That
 *  another account claims the name is no fault, and nothing to tell: DNS proves whose it is. */
export function addFault (owned: DomainEntry | undefined, count: number): Refusal | null {
  return owned === undefined ? countFault(count) : null
}

/** A domain like this, unless it is the account's already. Whether it may have it, `addFault` says. */
export function decideAdd (
  owned: DomainEntry | undefined,
  { id, name, dkim }: Pick<DomainEntry, 'id' | 'name'> & { dkim: DkimKey[] }
): DomainDecision[] {
  return owned === undefined ? [{ type: DomainAdded, data: { domain: id, name, dkim } }] : []
}

/** What is left out stays as it is. */
export function decideChange (
  { id, name, defaults: before }: DomainEntry,
  change: Partial<SendDefaults>
): DomainDecision[] {
  const defaults = { ...before, ...change }
  const names = Object.keys(defaults) as Array<keyof SendDefaults>
  if (names.every(name => defaults[name] === before[name])) return []
  return [{ type: DomainChanged, data: { domain: id, name, defaults } }]
}

export function decideRemoval ({ id, name }: DomainEntry): DomainDecision[] {
  return [{ type: DomainRemoved, data: { domain: id, name } }]
}

/** Whether mail may leave from a domain that its account owns, where verified ones are `required`. undefined = the
 *  sandbox, which stands in no directory: whose a domain is has been asked before. */
export function isVerifiedEnough (domain: Pick<DomainEntry, 'status'> | undefined, required: boolean): boolean {
  return !required || domain === undefined || domain.status === 'verified'
}

/** Whether DNS has shown the name of this domain to be another account's: a claim that is not proven yields to that. */
export function isProvenByAnother (
  { account }: Pick<DomainEntry, 'account'>,
  claims: ReadonlyArray<Pick<DomainEntry, 'account' | 'status'>>
): boolean {
  return claims.some(claim => claim.account !== account && claim.status === 'verified')
}

/** What an operator has to look after: the first account's domains, and those that DNS shows to be another's. What else
 *  other accounts claim harms no mail: nothing is sent from there. */
export function domainsInUse (domains: Iterable<DomainEntry>): DomainEntry[] {
  return [...domains].filter(({ account, status }) => account === FIRST_ACCOUNT || status === 'verified')
}

/** What DNS said, by the name of the wanted record: TXT records, or the target of a CNAME. A name that is left out: it
 *  did not say. */
export type DnsLook = Partial<Record<string, string[]>>

/** What a look changes. */
export interface Checked {
  status: DomainStatus
  records: RecordState[]
  spf?: SpfState
  failingSince: string | null
}

const HOUR_MS = 3_600_000
/** A verified domain stays so while its records have been wrong for less: DNS is moved, mistyped and mended, and mail
 *  must not stop for that. */
const WRONG_MAX_MS = 72 * HOUR_MS

/** The domain after a DNS check; null when nothing has changed, or DNS did not answer for all that is required. */
export function afterLook (domain: DomainEntry, wanted: WantedRecord[], look: DnsLook, nowMs: number): Checked | null {
  if (wanted.some(({ name, required }) => required && look[name] === undefined)) return null
  const records = wanted.filter(({ purpose }) => purpose !== 'spf').flatMap(record => {
    const found = look[record.name]
    if (found === undefined) return domain.records.filter(({ name }) => name === record.name)
    return judge(record, found) as RecordState
  })
  const spf = spfAfter(domain, wanted, look)
  const right = wanted.every(({ name, required }) =>
    !required || records.some(record => record.name === name && record.state === 'ok')
  )
  const checked = { ...standing(domain, right, nowMs), records, ...(spf === null ? {} : { spf }) }
  return isSame(checked, domain) ? null : checked
}

function spfAfter ({ spf }: DomainEntry, wanted: WantedRecord[], look: DnsLook): SpfState | null {
  const record = wanted.find(({ purpose }) => purpose === 'spf')
  if (record === undefined) return null
  const found = look[record.name]
  if (found === undefined) return spf?.name === record.name ? spf : null
  const { purpose: _purpose, ...state } = judge(record, found)
  return state
}

function standing (
  { status, failingSince }: DomainEntry,
  right: boolean,
  nowMs: number
): Pick<Checked, 'status' | 'failingSince'> {
  if (right) return { status: 'verified', failingSince: null }
  if (status !== 'verified') return { status, failingSince }
  if (failingSince === null) return { status, failingSince: new Date(nowMs).toISOString() }
  return { status: nowMs - Date.parse(failingSince) < WRONG_MAX_MS ? 'verified' : 'failed', failingSince }
}

function isSame (a: Checked, b: DomainEntry): boolean {
  const text = ({ status, failingSince, records, spf = null }: Omit<Checked, 'spf'> & { spf?: SpfState | null }) =>
    JSON.stringify([status, failingSince, [...records, spf].map(one => [one?.name, one?.state, one?.found])])
  return text(a) === text(b)
}

/** Receivers verify mail when it reaches them, and a relay or forwarder may have held it for 5 days. Source: RFC 5321
 *  4.5.4.1. */
const OVERLAP_MS = 7 * 24 * HOUR_MS

/** One rotation at a time: the records of the one before are still asked for. */
export function rotationFault ({ name, dkim: { next, previous } }: Pick<DomainEntry, 'name' | 'dkim'>): Refusal | null {
  const refuse = (why: string) => new Refusal('rotation_under_way', `The keys of ${name} are being rotated: ${why}.`)
  if (next !== null) return refuse('the new ones sign once DNS shows their records')
  return previous === null ? null : refuse(`keep the records of the old ones until ${previous.until}`)
}

/** What a look and the time do to the keys of a domain; null = nothing. New ones sign from the first look that shows
 *  the one that every receiver reads; the old ones are retired after the overlap. */
export function keyTurn (domain: DomainEntry, look: DnsLook, nowMs: number): KeyTurn | null {
  const { previous } = domain.dkim
  if (previous !== null && nowMs >= Date.parse(previous.until)) return { name: 'retired' }
  const awaited = wantedRecords(domain, null).find(({ stage }) => stage === 'next')
  if (awaited === undefined || judge(awaited, look[awaited.name] ?? []).state !== 'ok') return null
  return { name: 'switched', previousUntil: new Date(nowMs + OVERLAP_MS).toISOString() }
}

/** `dkim` are the keys that sign next, once a look finds them in DNS. */
export function decideRotation (domain: DomainEntry, dkim: DkimKey[]): DomainDecision[] | Refusal {
  const { id, name } = domain
  return rotationFault(domain) ?? [{ type: DomainRotationStarted, data: { domain: id, name, dkim } }]
}

/** The private keys that are kept, sealed with the newest of JETPOST_SECRET; nothing when they are so already. `reseal`
 *  says what becomes of a sealed one, null = it stays. */
export function decideReseal (
  { id, name, dkim }: DomainEntry,
  reseal: (sealed: string) => string | null
): DomainDecision[] {
  const keys = keptKeys(dkim).flatMap(({ selector, sealedKey: before }) => {
    const sealedKey = reseal(before)
    return sealedKey === null ? [] : [{ selector, sealedKey }]
  })
  return keys.length === 0 ? [] : [{ type: DomainKeysResealed, data: { domain: id, name, keys } }]
}

/** What a look at DNS changes: keys in rotation take their turn, and the records are judged that are wanted then. */
export function decideCheck (
  domain: DomainEntry,
  look: DnsLook,
  bounceDomain: string | null,
  nowMs: number,
  senderName: string | null = null
): DomainDecision[] {
  const turn = keyTurn(domain, look, nowMs)
  const after = turn === null ? domain : { ...domain, dkim: turned(domain.dkim, turn) }
  const checked = afterLook(after, wantedRecords(after, bounceDomain, senderName), look, nowMs)
  const { id, name } = domain
  return [
    ...(turn === null ? [] : [decideTurn(domain, turn)]),
    ...(checked === null ? [] : [{ type: DomainChecked, data: { domain: id, name, ...checked } }])
  ]
}

function decideTurn ({ id: domain, name }: DomainEntry, turn: KeyTurn): DomainDecision {
  return turn.name === 'retired'
    ? { type: DomainKeysRetired, data: { domain, name } }
    : { type: DomainKeysSwitched, data: { domain, name, previousUntil: turn.previousUntil } }
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

/** Unix ms of the next look: by the domain's status, or sooner for the sake of its rotation. */
export function nextLookMs (domain: DomainEntry, watch: Watch): number {
  return Math.min(settledLookMs(domain, watch), rotationLookMs(domain, watch))
}

/** A new domain is awaited. A verified one is looked at every 6 to 12 h, hourly while something is wrong; a failed one
 *  daily. */
function settledLookMs (
  { status, failingSince, createdAt }: DomainEntry,
  { lookedMs, told, sinceMs, luck }: Watch
): number {
  if (status === 'pending') return awaitedLookMs(Date.parse(createdAt), lookedMs)
  const wide = status === 'failed' ? 24 * HOUR_MS : (6 + 6 * luck) * HOUR_MS
  const gapMs = status === 'verified' && (failingSince !== null || !told) ? HOUR_MS : wide
  return lookedMs === null ? sinceMs + luck * gapMs : lookedMs + gapMs
}

function rotationLookMs ({ dkim: { next, previous } }: DomainEntry, { lookedMs }: Watch): number {
  if (next !== null) return awaitedLookMs(Date.parse(next.since), lookedMs)
  if (previous === null) return Infinity
  const untilMs = Date.parse(previous.until)
  return lookedMs === null || lookedMs < untilMs ? untilMs : lookedMs + HOUR_MS
}

/** Each minute, then at gaps of a tenth of the wait up to an hour; not at once, since a resolver would remember that
 *  there was nothing. */
function awaitedLookMs (sinceMs: number, lookedMs: number | null): number {
  const fromMs = Math.max(sinceMs, lookedMs ?? sinceMs)
  return fromMs + Math.min(HOUR_MS, Math.max(MINUTE_MS, (fromMs - sinceMs) / 10))
}
