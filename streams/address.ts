/** A mail address taken apart. `address` is what the envelope carries: the local part as given, the domain as
 *  lower-case A-labels. */
export interface Mailbox {
  address: string
  /** Display name, or null. */
  name: string | null
}

const ATOM = /^[^\s\p{C}\p{Z}()<>[\]:;@\\,."]+(\.[^\s\p{C}\p{Z}()<>[\]:;@\\,."]+)*$/u
const DOMAIN = /^[\p{L}\p{M}\p{N}-]+(\.[\p{L}\p{M}\p{N}-]+)+$/u
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
// C0, DEL and C1 never reach a header: CR and LF would begin another.
const CONTROL = /\p{Cc}/u

/** The domain as lower-case A-labels, or null when it is not a host name of two or more labels. Source: RFC 5321 4.1.2,
 *  RFC 5890. */
export function parseDomain (domain: string): string | null {
  if (!DOMAIN.test(domain)) return null
  const ascii = URL.parse(`http://${domain}`)?.hostname
  if (ascii === undefined || ascii.length > 253) return null
  const labels = ascii.split('.')
  // All-digit last labels are IPv4 literals in disguise, and the URL parser rewrites them.
  return labels.length > 1 && labels.every(label => LABEL.test(label)) && !/^\d+$/.test(labels.at(-1)!) ? ascii : null
}

/** In the place of an address that was erased: nobody's, for `invalid` is no domain of the DNS (RFC 2606, 2; RFC 6761,
 *  6.4). */
export const ERASED = 'erased@erased.invalid'

/** A bare address, normalised, or null. Dot-atoms and their UTF-8 form; no quoted local parts, comments or literals.
 *  Source: RFC 5321 4.5.3.1 (64 and 254 octets), RFC 6531. */
export function parseAddress (text: string): string | null {
  const at = text.lastIndexOf('@')
  const local = text.slice(0, at)
  const domain = at > 0 ? parseDomain(text.slice(at + 1)) : null
  if (domain === null || !ATOM.test(local) || octets(local) > 64) return null
  const address = `${local}@${domain}`
  return octets(address) <= 254 && address.toLowerCase() !== ERASED ? address : null
}

/** `a@b.c`, `Name <a@b.c>` or `"Name, Inc." <a@b.c>`; null when it is none of these. */
export function parseMailbox (text: string): Mailbox | null {
  if (text.length > 1000 || CONTROL.test(text)) return null
  const trimmed = text.trim()
  const open = trimmed.endsWith('>') ? trimmed.lastIndexOf('<') : -1
  const address = parseAddress(open === -1 ? trimmed : trimmed.slice(open + 1, -1).trim())
  const name = open === -1 ? '' : parsePhrase(trimmed.slice(0, open).trim())
  return address === null || name === null ? null : { address, name: name === '' ? null : name }
}

/** True when only the name before an address is wrong: quotation marks or angle brackets that are not within quotes. */
export function isNameUnquoted (text: string): boolean {
  const open = text.lastIndexOf('<')
  const isName = open < 1 || CONTROL.test(text) || parsePhrase(text.slice(0, open).trim()) !== null
  return !isName && parseMailbox(text.slice(open)) !== null
}

/** A display name, out of its quotes; null when it is neither plain nor quoted. */
function parsePhrase (text: string): string | null {
  if (!/["<>]/.test(text)) return text
  const quoted = /^"((?:[^"\\]|\\.)*)"$/u.exec(text)
  return quoted === null ? null : quoted[1]!.replaceAll(/\\(.)/gu, '$1').trim()
}

/** The part after the @ of a normalised address. */
export function domainOf (address: string): string {
  return address.slice(address.lastIndexOf('@') + 1)
}

function octets (text: string): number {
  return new TextEncoder().encode(text).length
}
