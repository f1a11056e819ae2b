/** How many mailboxes the value of a field may be taken to have: what stands between commas, between the semicolons
 *  that end groups, and each pair of angle brackets. Source: RFC 5322 3.2.2, 3.2.4, 3.4. */
export function mailboxesIn (value: string): number {
  const bare = withoutQuotes(value) ?? value
  const listed = bare.split(/[,;]/).filter(part => part.trim() !== '').length
  return Math.max(listed, bare.split('<').length - 1)
}

/** Without quoted strings and comments; null = readers do not agree where they are: one does not end, or a backslash
 *  stands outside of them. */
function withoutQuotes (value: string): string | null {
  let bare = ''
  let from = 0
  let isQuoted = false
  let depth = 0
  for (let i = 0; i < value.length; i++) {
    const char = value[i]!
    const wasBare = !isQuoted && depth === 0
    if (char === '\\') {
      if (wasBare) return null
      i++
    } else if (char === '"' && depth === 0) isQuoted = !isQuoted
    else if (char === '(' && !isQuoted) depth++
    else if (char === ')' && depth > 0) depth--
    const isBare = !isQuoted && depth === 0
    if (wasBare && !isBare) bare += value.slice(from, i)
    if (!wasBare && isBare) from = i + 1
  }
  return isQuoted || depth > 0 ? null : bare + value.slice(from)
}
