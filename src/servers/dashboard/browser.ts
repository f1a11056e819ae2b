import Bowser from 'bowser'
import { BROWSER_LENGTH_MAX } from '#streams/session/facts.ts'

/** Browsers say no more about themselves; the parser's patterns are for such. */
const HEADER_LENGTH_MAX = 500

/** `Firefox 140 on Linux`, of a User-Agent header; null = it names no browser. It is what the client says, not who it
 *  is. */
export function browserOf (userAgent: string | undefined): string | null {
  if (userAgent === undefined || userAgent === '' || userAgent.length > HEADER_LENGTH_MAX) return null
  const { browser: { name, version }, os } = Bowser.parse(userAgent)
  if (!name) return null
  const [major] = (version ?? '').split('.')
  const browser = major ? `${name} ${major}` : name
  return (os.name ? `${browser} on ${os.name}` : browser).slice(0, BROWSER_LENGTH_MAX)
}
