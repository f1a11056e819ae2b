import type { FastifyReply } from 'fastify'
import { Refusal } from '#streams/define.ts'
import type { KeyEntry, SessionEntry } from '#streams/directory.ts'
import type { Jetpost } from '#src/client/client.ts'
import type { Asker } from '#src/actions/services.ts'
import type { Html } from '#src/base/html.ts'
import type { AssetName } from './assets.ts'

/** One request of somebody who is signed in. */
export interface Visit {
  /** Of what is asked for, as in /dashboard/emails/:id. */
  params: Record<string, string>
  query: URLSearchParams
  /** What was posted; empty for a GET. */
  form: URLSearchParams
  /** Path and query, to come back to. */
  url: string
  account: { id: string, name: string }
  session: SessionEntry
  /** What they may do: see `asVisitor`. */
  key: KeyEntry
  /** The same API that clients have, as this visitor: whatever it says no to, it throws as JetpostError. */
  api: Jetpost
  /** For actions that the API does not have. */
  asker: Asker
  /** Of the account that runs this installation: sees all of it on the page Operations. */
  isOperator: boolean
  /** Goes into every form: see `form` in parts.ts. */
  csrf: string
  nowMs: number
}

/** Parts of the dashboard, as in its menu. */
export type Section =
  | 'overview'
  | 'emails'
  | 'webhooks'
  | 'templates'
  | 'domains'
  | 'keys'
  | 'suppressions'
  | 'operations'
  | 'mailbox'

/** What a handler answers. */
export type Answer =
  /** A page of the dashboard; `section` = where in the menu it stands, `assets` = scripts and styles that it needs and
   *  others do not. */
  | { page: Html, title: string, section: Section | null, status?: number, assets?: AssetName[] }
  /** The browser goes on there, which says `notice` once. */
  | { to: string, notice?: string }
  /** Anything else. */
  | { send(reply: FastifyReply): FastifyReply }

export type Handler = (visit: Visit) => Promise<Answer>

/** Where pages stand; paths are below /dashboard. */
export interface Pages {
  get(path: string, handler: Handler): void
  /** Only with the token of the visitor's own forms. */
  post(path: string, handler: Handler): void
}

/** There is no such thing, or it is somebody else's. */
export class Missing extends Error {}

/** What was asked for cannot be done, in a sentence for whoever asked. */
export class Unfit extends Error {}

/** What an action refused, as an error for the page. */
export function granted<T> (result: T | Refusal): T {
  if (!(result instanceof Refusal)) return result
  throw result.code === 'not_found' ? new Missing(result.message) : new Unfit(result.message)
}
