import type { FactOf } from '../define.ts'
import type { sessionFacts, SessionLinkMade, SessionOpened } from './facts.ts'

/** Somebody's way into the dashboard. */
export interface SessionEntry {
  id: string
  account: string
  /** Id of the key or the user that has signed in: as long as that one opens the dashboard, so does this. */
  principal: string
  /** SHA-256 of the key's secret that it was opened with; null = a user has none. */
  keyHash: string | null
  /** SHA-256 of the secret in the cookie. */
  hash: string
  previousHash: string | null
  /** Since when it has this secret, Unix ms. */
  secretMs: number
  /** When it ends, Unix ms. */
  untilMs: number
  /** When who sits there last showed who they are; Unix ms. */
  confirmedMs: number
  createdAt: string
  /** `Firefox 140 on Linux`; null = it did not say. */
  browser: string | null
  /** The address that it was opened from. */
  ip: string | null
}

/** A link that opens a session, once. */
export interface LinkEntry {
  /** Of the session that it opens. */
  session: string
  account: string
  /** Id of the key or the user that it stands for. */
  principal: string
  /** SHA-256 of the secret in the link. */
  hash: string
  /** Until when it can be used, Unix ms. */
  untilMs: number
  isUsed: boolean
}

/** A part of the directory. */
interface Sessions {
  sessions: Map<string, SessionEntry>
  links: Map<string, LinkEntry>
}

type SessionFact = FactOf<typeof sessionFacts[number]>

/** What is told of a session in place. `hashOf`: the hash of a key's present secret. */
export function evolveSessions (
  { sessions, links }: Sessions,
  fact: SessionFact,
  hashOf: (key: string) => string | undefined
): void {
  switch (fact.type) {
    case 'session.link_made':
      return addLink(links, fact)
    case 'session.opened':
      return openSession({ sessions, links }, fact, hashOf)
    case 'session.rotated': {
      const session = sessions.get(fact.data.session)
      if (session === undefined) return
      const { hash } = fact.data
      Object.assign(session, { hash, previousHash: session.hash, secretMs: Date.parse(fact.time) })
      return
    }
    case 'session.confirmed': {
      const session = sessions.get(fact.data.session)
      if (session !== undefined) session.confirmedMs = Date.parse(fact.time)
      return
    }
    case 'session.ended':
      sessions.delete(fact.data.session)
  }
}

/** How long a link that is over is remembered, to say why it does not work. */
const LINK_REMEMBERED_MS = 24 * 3_600_000

function addLink (links: Sessions['links'], { data, account, time }: FactOf<typeof SessionLinkMade>): void {
  const madeMs = Date.parse(time)
  for (const { session, untilMs } of links.values()) {
    if (untilMs + LINK_REMEMBERED_MS <= madeMs) links.delete(session)
  }
  const { until, ...rest } = data
  links.set(data.session, { ...rest, account, untilMs: Date.parse(until), isUsed: false })
}

function openSession (
  { sessions, links }: Sessions,
  { data, account, time, actor }: FactOf<typeof SessionOpened>,
  hashOf: (key: string) => string | undefined
): void {
  const openedMs = Date.parse(time)
  for (const { id, untilMs } of sessions.values()) if (untilMs <= openedMs) sessions.delete(id)
  const { session: id, principal, hash, until, secret: keyHash = hashOf(principal) ?? null, browser = null } = data
  const link = links.get(id)
  if (link !== undefined) link.isUsed = true
  sessions.set(id, {
    id,
    account,
    principal,
    keyHash,
    hash,
    previousHash: null,
    secretMs: openedMs,
    untilMs: Date.parse(until),
    confirmedMs: openedMs,
    createdAt: time,
    browser,
    ip: actor?.ip ?? null
  })
}
