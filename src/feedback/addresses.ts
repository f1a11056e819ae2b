/** What may stand around an address: anything that no address holds. Apostrophes quote, or belong to a word before:
 *  only an Irish name may have one, or what a bracket shuts in. */
const LOCAL_PART = /(?:[^\s<>()[\]{}"',;:@\\`|\u3000-\u303f\uff00-\uffef]|(?<=\b[oO]|<[\w.]{1,30})'(?=\p{L})){1,64}/u
const LABEL = /[\p{L}\p{N}_-]{1,63}/u
const ADDRESS = new RegExp(`${LOCAL_PART.source}@(?:${LABEL.source}\\.){0,8}${LABEL.source}`, 'gu')

/** Names that receive no mail of ours, but send reports or stand in for an address withheld. */
const STAND_INS = new RegExp(
  [
    /^(?:mailer-daemon|mail-daemon|postmaster|redacted|undisclosed|unknown|hidden|removed|x{3,}|\*+)(?:[.+_-].*)?@/,
    /@(?:redacted|removed|x{3,}|hidden)\b/,
    /=?redacted/
  ].map(pattern => pattern.source).join('|'),
  'i'
)

/** Addresses in a text in their order, each once, lower-case domains. Linear. */
export function addressesIn (text: string, max = 50): string[] {
  const found = new Set<string>()
  for (const [address] of text.matchAll(ADDRESS)) {
    const clean = tidy(address)
    if (clean !== null) found.add(clean)
    if (found.size >= max) break
  }
  return [...found]
}

/** The one address of a field, without its type (`rfc822;`), brackets, comments and escapes, or null. Source: RFC 3464
 *  2.3.2, RFC 6533 3. */
export function addressOf (value: string): string | null {
  const bare = value.slice(0, 1000).replace(/^\s*[\w.-]{1,20}\s*;/, '').replaceAll(
    /\\x\{([0-9a-f]{2,6})\}/gi,
    (_, hex: string) => character(hex)
  ).trim()
  const quoted = /"(?:[^"\\]|\\.){1,64}"@[\w.-]{1,253}/.exec(bare)?.[0]
  return quoted !== undefined && !/\p{C}/u.test(quoted) ? quoted : addressesIn(unrelayed(bare))[0] ?? null
}

/** Whether it is a placeholder, or the server itself. */
export function isStandIn (address: string): boolean {
  return STAND_INS.test(address)
}

export function sameAddress (a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase()
}

/** Source routes (`@a,@b:c@d`) name hosts before the address. */
function unrelayed (value: string): string {
  return value.replace(/^<?@[^:\s]{1,250}:/, '')
}

function tidy (address: string): string | null {
  const at = address.lastIndexOf('@')
  const local = address.slice(0, at).replace(/^(?:mailto|smtp|rfc822)[:=]/i, '').replace(/^[.=*>-]+/, '').replace(
    /\.+$/,
    ''
  )
  const domain = address.slice(at + 1).toLowerCase().replace(/[_-]+$/, '')
  return local === '' || !/[\p{L}\p{N}]/u.test(domain) || /\p{C}/u.test(local) ? null : `${local}@${domain}`
}

function character (hex: string): string {
  const point = Number.parseInt(hex, 16)
  return point > 0x20 && point <= 0x10ffff ? String.fromCodePoint(point) : ''
}
