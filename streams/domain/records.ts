import type { DomainEntry } from '../directory.ts'
import type { DkimKey, RecordState, SpfState } from './facts.ts'
import type { PublishedKey } from './keys.ts'

export type Purpose = RecordState['purpose'] | 'spf'

/** A DNS record that the owner of a domain is asked to publish. `name` is whole and without the final dot; a TXT's
 *  `value` is one string, which DNS carries in parts of 255 octets at most. */
export interface WantedRecord {
  purpose: Purpose
  type: 'TXT' | 'CNAME'
  name: string
  value: string
  /** Whether the domain is not verified without it. */
  required: boolean
  /** Where in a rotation it stands: that of a `next` key is awaited, of a `previous` one kept until `removableAt`, a
   *  `removable` one of no use. */
  stage: 'current' | 'next' | 'previous' | 'removable'
  /** RFC 3339; null unless there is such a time. */
  removableAt: string | null
}

/** A wanted record as DNS showed it last; `unchecked` = nobody has looked yet, or DNS did not say. */
export type SeenRecord = WantedRecord & { state: RecordState['state'] | 'unchecked', found: string[] }

/** What DNS said of a record. */
export type JudgedRecord = SpfState & { purpose: Purpose }

const RETURN_PATH_LABEL = 'jp-bounces'

/** Whether it is the return-path host of a domain, of any account. */
export const isReturnPath = (host: string): boolean => host.startsWith(`${RETURN_PATH_LABEL}.`)

/** The domain whose return path a host is. */
export const returnPathDomain = (host: string): string => host.slice(RETURN_PATH_LABEL.length + 1)

/** What is to be published for a domain, and what was. `bounceDomain` = host of the return path, or null when there is
 *  none; `senderName` = our own name, which sends in direct mode, else null. Only DKIM with RSA is required: it alone
 *  makes DMARC pass everywhere, since it is aligned. A return path of the domain's own aligns SPF as well, and one is
 *  not needed where the bounce host lies within the domain. DMARC is the domain owner's own policy, so it is advice; so
 *  is SPF in direct mode, where no relay has one. Source: RFC 6376, RFC 7208, RFC 9989. */
export function wantedRecords (
  { name, dkim }: Pick<DomainEntry, 'name' | 'dkim'>,
  bounceDomain: string | null,
  senderName: string | null = null
): WantedRecord[] {
  const { active, next, previous, retired } = dkim
  return [
    ...active.map(key => keyRecord(key, name, 'current')),
    ...(next?.keys ?? []).map(key => keyRecord(key, name, 'next')),
    ...returnPathRecords(name, bounceDomain),
    ...spfRecords(bounceDomain ?? name, senderName),
    {
      purpose: 'dmarc',
      type: 'TXT',
      name: `_dmarc.${name}`,
      value: 'v=DMARC1; p=none',
      required: false,
      stage: 'current',
      removableAt: null
    },
    ...(previous?.keys ?? []).map(key => keyRecord(key, name, 'previous', previous!.until)),
    ...retired.map(key => keyRecord(key, name, 'removable'))
  ]
}

/** Source: RFC 6376 3.6.1, RFC 8463 4. */
function keyRecord (
  key: PublishedKey,
  domain: string,
  stage: WantedRecord['stage'],
  removableAt: string | null = null
): WantedRecord {
  const { algorithm, publicKey } = key
  const type = algorithm === 'rsa-sha256' ? 'rsa' : 'ed25519'
  const value = `v=DKIM1; k=${type}; p=${publicKey}`
  return {
    purpose: 'dkim',
    type: 'TXT',
    name: keyName(key, domain),
    value,
    required: type === 'rsa' && stage === 'current',
    stage,
    removableAt
  }
}

function keyName ({ selector }: PublishedKey, domain: string): string {
  return `${selector}._domainkey.${domain}`
}

function returnPathRecords (name: string, bounceDomain: string | null): WantedRecord[] {
  if (bounceDomain === null || liesWithin(bounceDomain, name)) return []
  return [{
    purpose: 'return_path',
    type: 'CNAME',
    name: returnPathName(name),
    value: bounceDomain,
    required: false,
    stage: 'current',
    removableAt: null
  }]
}

/** At the domain of the return path, to which a domain's own leads by CNAME. */
function spfRecords (name: string, senderName: string | null): WantedRecord[] {
  if (senderName === null) return []
  const value = `v=spf1 a:${senderName} ~all`
  return [{ purpose: 'spf', type: 'TXT', name, value, required: false, stage: 'current', removableAt: null }]
}

const liesWithin = (host: string, domain: string): boolean => `.${host}`.endsWith(`.${domain}`)
const returnPathName = (domain: string): string => `${RETURN_PATH_LABEL}.${domain}`

/** The host that mail from a domain comes back to; null where nothing comes back. It is the domain's own once DNS leads
 *  from there to `bounceDomain`, since SPF is then aligned: before that bounces would be lost. */
export function returnPathHost (
  { name, records }: Pick<DomainEntry, 'name' | 'records'>,
  bounceDomain: string | null
): string | null {
  if (bounceDomain === null || liesWithin(bounceDomain, name)) return bounceDomain
  const own = returnPathName(name)
  return records.some(record => record.name === own && record.state === 'ok') ? own : bounceDomain
}

/** The keys that sign now. RSA always does: it is what every receiver reads, and one look that missed its record must
 *  not cost the domain its DMARC. Ed25519 is left out when DNS shows RSA's record and not its own: a signature that
 *  nobody can verify is no better than none, and looks worse. */
export function signingKeys ({ name, dkim, records }: Pick<DomainEntry, 'name' | 'dkim' | 'records'>): DkimKey[] {
  const stateOf = (key: DkimKey) => records.find(record => record.name === keyName(key, name))?.state
  const isSeen = dkim.active.some(key => key.algorithm === 'rsa-sha256' && stateOf(key) === 'ok')
  return dkim.active.filter(key =>
    key.algorithm === 'rsa-sha256' || !isSeen || !['missing', 'wrong'].includes(stateOf(key) ?? 'unchecked')
  )
}

/** The wanted records, each with what DNS last showed of it. What is of no use is shown while it is there. */
export function seenRecords (
  domain: DomainEntry,
  bounceDomain: string | null,
  senderName: string | null = null
): SeenRecord[] {
  return wantedRecords(domain, bounceDomain, senderName).map(record => {
    const known = record.purpose === 'spf' ? [domain.spf].filter(spf => spf !== null) : domain.records
    const { state, found } = known.find(({ name }) => name === record.name) ??
      { state: 'unchecked' as const, found: [] }
    return { ...record, state, found }
  }).filter(({ stage, state }) => stage !== 'removable' || state === 'ok')
}

/** What `found` (TXT records, or the target of a CNAME) says of a wanted record. Several records are fine when one of
 *  them is right, but for policies of DMARC (RFC 7489 6.6.3) and SPF (RFC 7208 4.5). */
export function judge (record: WantedRecord, found: string[]): JudgedRecord {
  const { name, purpose } = record
  // Receivers that find two policies apply none.
  const isOfKind = purpose === 'dmarc' ? isPolicy : purpose === 'spf' ? isSpf : () => false
  const isAmbiguous = found.filter(isOfKind).length > 1
  const right = isAmbiguous ? [] : found.filter(text => isRight(record, text))
  if (right.length > 0) return { name, purpose, state: 'ok', found: shown(right) }
  return { name, purpose, state: found.length === 0 ? 'missing' : 'wrong', found: shown(found) }
}

function isRight ({ purpose, value }: WantedRecord, text: string): boolean {
  switch (purpose) {
    case 'dkim':
      return isKey(text, tagsOf(value)!)
    case 'return_path':
      return text === value
    case 'spf':
      return isSpf(text)
    case 'dmarc':
      return isPolicy(text) && /^(none|quarantine|reject)$/i.test(tagsOf(text)?.get('p') ?? '')
  }
}

/** Compared by its tags, as a receiver reads them: their order and blanks say nothing, v= and k= have defaults, t= does
 *  not matter for what we sign. Source: RFC 6376 3.6.1. */
function isKey (text: string, wanted: Map<string, string>): boolean {
  const tags = tagsOf(text)
  if (tags === null) return false
  const lists = (name: string, ...values: string[]) =>
    tags.get(name)?.split(':').some(value => values.includes(value.trim())) ?? true
  return (tags.get('v') ?? 'DKIM1') === 'DKIM1' && (tags.get('k') ?? 'rsa') === wanted.get('k') &&
    lists('h', 'sha256') && lists('s', '*', 'email') &&
    tags.get('p')?.replaceAll(/\s/g, '') === wanted.get('p')
}

/** `a=1; b=2` as a map, or null when it is no such list or names a tag twice. Source: RFC 6376 3.2. */
function tagsOf (text: string): Map<string, string> | null {
  const tags = new Map<string, string>()
  for (const part of text.split(';').map(part => part.trim()).filter(part => part !== '')) {
    const at = part.indexOf('=')
    const name = part.slice(0, Math.max(0, at)).trim()
    if (!/^[a-z]\w*$/i.test(name) || tags.has(name)) return null
    tags.set(name, part.slice(at + 1).trim())
  }
  return tags
}

const isPolicy = (text: string): boolean => /^v\s*=\s*DMARC1\s*(;|$)/.test(text)

/** Whether it lets our address send only a mail shows. Source: RFC 7208 4.5. */
export const isSpf = (text: string): boolean => /^v=spf1( |$)/i.test(text)

const WALK_MAX = 8

/** Where the policy for a domain may stand: its own name, then its parents', at most 8 in all; never a top-level domain
 *  alone. Source: RFC 9989 4.10. */
export function policyNames (name: string): string[] {
  const labels = name.split('.')
  const parents = labels.map((_label, i) => labels.slice(i)).slice(1, -1).filter(parent => parent.length < WALK_MAX)
  return [labels, ...parents].map(rest => `_dmarc.${rest.join('.')}`)
}

/** The policy that holds, from what DNS showed at each of policyNames; null where it did not say, and as the result
 *  when that may hide the policy. More than one policy at a name ends the search: receivers apply none of them. */
export function policyOf (levels: Array<string[] | null>): string[] | null {
  for (const texts of levels) {
    if (texts === null) return null
    const policies = texts.filter(isPolicy)
    if (policies.length > 0) return policies
  }
  return levels[0]!
}

/** Fewer than a fact has room for: DNS is a stranger, and facts about domains are kept for ever. */
const FOUND_MAX = 5
const FOUND_LENGTH_MAX = 500

/** What a person may be shown: sorted, since DNS answers in any order, and free of characters that a terminal would
 *  obey. */
function shown (texts: string[]): string[] {
  return texts.map(text => text.slice(0, FOUND_LENGTH_MAX).replaceAll(/[^\x20-\x7e]/g, '?')).sort().slice(0, FOUND_MAX)
}
