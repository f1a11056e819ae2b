import type { Domain } from '../directory.ts'
import type { RecordState } from './facts.ts'

export type Purpose = RecordState['purpose']

/** A DNS record that the owner of a domain is asked to publish. `name` is whole and without the final dot; a TXT's `value` is one string, which DNS
 *  carries in parts of 255 octets at most. */
export interface WantedRecord {
  purpose: Purpose
  type: 'TXT' | 'CNAME'
  name: string
  value: string
  /** Whether the domain is not verified without it. */
  required: boolean
}

/** A wanted record as DNS showed it last; `unchecked` = nobody has looked yet, or DNS did not say. */
export type SeenRecord = WantedRecord & { state: RecordState['state'] | 'unchecked', found: string[] }

const RETURN_PATH_LABEL = 'jp-bounces'

/** What is to be published for a domain. `bounceDomain` = host of the return path, or null when there is none.
 *  Only DKIM is required: it alone makes DMARC pass, since it is aligned. A return path of the domain's own aligns SPF as well, and one is not needed
 *  where the bounce host lies within the domain. DMARC is the domain owner's own policy, so it is advice. Source: RFC 6376, RFC 7208, RFC 9989. */
export function wantedRecords ({ name, dkim }: Pick<Domain, 'name' | 'dkim'>, bounceDomain: string | null): WantedRecord[] {
  const key: WantedRecord = {
    purpose: 'dkim', type: 'TXT', name: `${dkim.selector}._domainkey.${name}`, value: `v=DKIM1; k=rsa; p=${dkim.publicKey}`, required: true
  }
  const policy: WantedRecord = { purpose: 'dmarc', type: 'TXT', name: `_dmarc.${name}`, value: 'v=DMARC1; p=none', required: false }
  if (bounceDomain === null || `.${bounceDomain}`.endsWith(`.${name}`)) return [key, policy]
  return [key, { purpose: 'return_path', type: 'CNAME', name: `${RETURN_PATH_LABEL}.${name}`, value: bounceDomain, required: false }, policy]
}

/** The wanted records, each with what DNS last showed of it. */
export function seenRecords (domain: Domain, bounceDomain: string | null): SeenRecord[] {
  return wantedRecords(domain, bounceDomain).map(record => {
    const { state, found } = domain.records.find(({ purpose }) => purpose === record.purpose) ?? { state: 'unchecked' as const, found: [] }
    return { ...record, state, found }
  })
}

/** What `found` (TXT records, or the target of a CNAME) says of a wanted record. Several records are fine when one of them is right. */
export function judge (record: WantedRecord, found: string[]): RecordState {
  const right = found.filter(text => isRight(record, text))
  const { purpose } = record
  if (right.length > 0) return { purpose, state: 'ok', found: shown(right) }
  return { purpose, state: found.length === 0 ? 'missing' : 'wrong', found: shown(found) }
}

function isRight ({ purpose, value }: WantedRecord, text: string): boolean {
  switch (purpose) {
    case 'dkim': return isKey(text, tagsOf(value)!.get('p')!)
    case 'return_path': return text === value
    case 'dmarc': return isPolicy(text) && /^(none|quarantine|reject)$/i.test(tagsOf(text)?.get('p') ?? '')
  }
}

/** Compared by its tags, as a receiver reads them: their order and blanks say nothing, v= and k= have defaults, t= does not matter for what we sign.
 *  Source: RFC 6376 3.6.1. */
function isKey (text: string, publicKey: string): boolean {
  const tags = tagsOf(text)
  if (tags === null) return false
  const lists = (name: string, ...values: string[]) => tags.get(name)?.split(':').some(value => values.includes(value.trim())) ?? true
  return (tags.get('v') ?? 'DKIM1') === 'DKIM1' && (tags.get('k') ?? 'rsa') === 'rsa' && lists('h', 'sha256') && lists('s', '*', 'email') &&
    tags.get('p')?.replaceAll(/\s/g, '') === publicKey
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

const WALK_MAX = 8

/** Where the policy for a domain may stand: its own name, then its parents', at most 8 in all; never a top-level domain alone. Source: RFC 9989 4.10. */
export function policyNames (name: string): string[] {
  const labels = name.split('.')
  const parents = labels.map((_label, i) => labels.slice(i)).slice(1, -1).filter(parent => parent.length < WALK_MAX)
  return [labels, ...parents].map(rest => `_dmarc.${rest.join('.')}`)
}

/** The policy that holds, from what DNS showed at each of policyNames; null where it did not say, and as the result when that may hide the policy.
 *  More than one policy at a name is none. */
export function policyOf (levels: Array<string[] | null>): string[] | null {
  for (const texts of levels) {
    if (texts === null) return null
    const policies = texts.filter(isPolicy)
    if (policies.length === 1) return policies
  }
  return levels[0]!
}

/** Fewer than a fact has room for: DNS is a stranger, and facts about domains are kept for ever. */
const FOUND_MAX = 5
const FOUND_LENGTH_MAX = 500

/** What a person may be shown: sorted, since DNS answers in any order, and free of characters that a terminal would obey. */
function shown (texts: string[]): string[] {
  return texts.map(text => text.slice(0, FOUND_LENGTH_MAX).replaceAll(/[^\x20-\x7e]/g, '?')).sort().slice(0, FOUND_MAX)
}
