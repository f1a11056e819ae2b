import type { DkimKey } from './facts.ts'

/** What is in DNS of a key. */
export type PublishedKey = Omit<DkimKey, 'sealedKey'>

/** The keys of a domain on their way: next, active, previous, retired. At most one rotation is under way. */
export interface DomainKeys {
  /** Sign its mail; RSA first. */
  active: DkimKey[]
  /** Made at `since`; they sign once DNS shows the one that is required. */
  next: { keys: DkimKey[], since: string } | null
  /** Sign no more; published until then, since receivers verify mail days after it was signed. */
  previous: { keys: PublishedKey[], until: string } | null
  /** Of the last rotation that has ended: what is left of them in DNS may go. */
  retired: PublishedKey[]
}

/** What a look or the time does to the keys. */
export type KeyTurn = { name: 'switched', previousUntil: string } | { name: 'retired' }

export function firstKeys (active: DkimKey[]): DomainKeys {
  return { active, next: null, previous: null, retired: [] }
}

export function withNext (keys: DomainKeys, next: DkimKey[], since: string): DomainKeys {
  return { ...keys, next: { keys: next, since } }
}

export function turned (keys: DomainKeys, turn: KeyTurn): DomainKeys {
  const { active, next, previous } = keys
  if (turn.name === 'retired') return { ...keys, previous: null, retired: previous?.keys ?? [] }
  if (next === null) return keys
  return {
    ...keys,
    active: next.keys,
    next: null,
    previous: { keys: active.map(published), until: turn.previousUntil }
  }
}

/** The keys that sign, or will: those whose private halves are kept. */
export function keptKeys ({ active, next }: DomainKeys): DkimKey[] {
  return [...active, ...next?.keys ?? []]
}

export function resealed (
  keys: DomainKeys,
  sealed: ReadonlyArray<Pick<DkimKey, 'selector' | 'sealedKey'>>
): DomainKeys {
  const bySelector = new Map(sealed.map(({ selector, sealedKey }) => [selector, sealedKey]))
  const after = (key: DkimKey) => ({ ...key, sealedKey: bySelector.get(key.selector) ?? key.sealedKey })
  const { active, next } = keys
  return { ...keys, active: active.map(after), next: next === null ? null : { ...next, keys: next.keys.map(after) } }
}

function published ({ sealedKey: _sealed, ...key }: DkimKey): PublishedKey {
  return key
}
