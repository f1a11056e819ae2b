/** One line for a terminal: what strangers wrote (a subject, a server's reply) may hold line breaks, and codes that a
 *  terminal obeys. */
export function oneLine (text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim()
}
