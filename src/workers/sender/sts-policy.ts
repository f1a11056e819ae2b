/** What a domain requires of senders. Source: RFC 8461 3.2. */
export interface StsPolicy {
  mode: 'enforce' | 'testing' | 'none'
  /** Names of its MX hosts, lower case; `*.` stands for one label. */
  mx: string[]
  maxAgeS: number
}

const MAX_AGE_S_MAX = 31_557_600
const HOSTS_MAX = 1000
const LINES_MAX = 2000
const LINE_LENGTH_MAX = 1000

/** The `id` of the one TXT record at `_mta-sts.` that is meant; null when there is none, or more than one, or it cannot
 *  be read: then the domain has no policy. Source: RFC 8461 3.1. Pure. */
export function policyId (records: readonly string[]): string | null {
  const meant = records.filter(record => /^v=STSv1\s*;/.test(record))
  if (meant.length !== 1) return null
  return /;\s*id=([A-Za-z0-9]{1,32})\s*(?:;|$)/.exec(meant[0]!)?.[1] ?? null
}

/** Reads a policy file; null when it is none, or longer in lines or in one line than any policy has reason to be. Of
 *  keys that may stand once the first counts, unknown ones do not. Pure, in linear time: anybody may have written the
 *  text. */
export function parsePolicy (text: string): StsPolicy | null {
  const lines = text.split('\n', LINES_MAX + 1)
  if (lines.length > LINES_MAX || lines.some(line => line.length > LINE_LENGTH_MAX)) return null
  const fields = lines.map(fieldOf)
  const first = (key: string) => fields.find(field => field.key === key)?.value
  const mode = first('mode')
  const maxAge = first('max_age') ?? ''
  if (first('version') !== 'STSv1' || !isMode(mode) || !/^\d{1,10}$/.test(maxAge)) return null
  const mx = fields.filter(({ key }) => key === 'mx').map(({ value }) => value.toLowerCase().replace(/\.$/, ''))
  if (mx.length > HOSTS_MAX || (mx.length === 0 && mode !== 'none')) return null
  return { mode, mx, maxAgeS: Math.min(Number(maxAge), MAX_AGE_S_MAX) }
}

/** A line without a colon has no known key. */
function fieldOf (line: string): { key: string, value: string } {
  const colon = line.indexOf(':')
  return { key: line.slice(0, Math.max(0, colon)).trim(), value: line.slice(colon + 1).trim() }
}

function isMode (mode: string | undefined): mode is StsPolicy['mode'] {
  return mode === 'enforce' || mode === 'testing' || mode === 'none'
}

/** Whether the policy names the host. Source: RFC 8461 4.1. Pure. */
export function namesHost (policy: StsPolicy, host: string): boolean {
  const parent = host.slice(host.indexOf('.') + 1)
  return policy.mx.some(
    pattern => (pattern.startsWith('*.') ? host.includes('.') && pattern.slice(2) === parent : pattern === host)
  )
}
