/** A position in a list that is ordered by a time (RFC 3339, UTC, milliseconds) and an id. */
export interface PageCursor {
  at: string
  id: string
}

/** Opaque to clients; 200 characters at most. */
export function cursorText ({ at, id }: PageCursor): string {
  return Buffer.from(`${at} ${id}`).toString('base64url')
}

/** Creates a parser of such texts: null for any other text, and when its id has another prefix. */
export function cursorParser (prefix: string): (text: string) => PageCursor | null {
  const ours = new RegExp(`^((?!0000)\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z) (${prefix}[0-9a-z]{1,64})$`)
  return text => {
    const [, at, id] = (text.length > 200 ? null : ours.exec(Buffer.from(text, 'base64url').toString('latin1'))) ?? []
    if (at === undefined || id === undefined) return null
    const ms = Date.parse(at)
    // V8 reads 30 February as 2 March, Postgres refuses it, and the year 0.
    return Number.isNaN(ms) || new Date(ms).toISOString() !== at ? null : { at, id }
  }
}
