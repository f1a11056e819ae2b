import type { FastifyReply } from 'fastify'
import { Refusal } from '#streams/define.ts'
import type { Principal } from '#streams/directory.ts'
import type { Scope } from '#streams/key/facts.ts'
import type { SessionEntry } from '#streams/session/state.ts'
import type { Jetpost } from '#src/client/client.ts'
import type { Asker } from '#src/actions/services.ts'
import type { Html } from '#src/base/html.ts'
import type { AssetName } from './assets.ts'

/** One request of somebody who is signed in. */
export interface Visit {
  /** Of the path, as in /dashboard/emails/:id. */
  params: Record<string, string>
  query: URLSearchParams
  /** The posted fields; empty for a GET. */
  form: URLSearchParams
  /** Path and query, to come back to. */
  url: string
  account: { id: string, name: string }
  session: SessionEntry
  /** What the visitor may do: see `asVisitor`. */
  principal: Principal
  /** The API that clients use, as this visitor. What it refuses it throws as JetpostError. */
  api: Jetpost
  /** For actions that the API does not have. */
  asker: Asker
  /** Whether the visitor may open this page, or send this form; `url` from /dashboard on. */
  may(method: 'GET' | 'POST', url: string): boolean
  /** Sees the whole installation under Operations, and the mailbox. */
  isOperator: boolean
  /** Goes into every form: see `form` in parts.ts. */
  csrf: string
  nowMs: number
}

/** Parts of the dashboard, as in its menu. */
export type MenuItem =
  | 'overview'
  | 'emails'
  | 'webhooks'
  | 'templates'
  | 'domains'
  | 'keys'
  | 'people'
  | 'suppressions'
  | 'audit'
  | 'operations'
  | 'mailbox'

export type PageResult =
  /** A page; `section` = its item in the menu, `assets` = scripts and styles that only some pages need, `isWide` = it
   *  takes the whole width. */
  | { page: Html, title: string, section: MenuItem | null, status?: number, assets?: AssetName[], isWide?: boolean }
  /** A redirect; the page there shows `notice` once. */
  | { to: string, notice?: string }
  /** Anything else. */
  | { send(reply: FastifyReply): FastifyReply }

export type Handler = (visit: Visit) => Promise<PageResult>

/** Takes the routes of pages; paths are below /dashboard. `scope` = what the visitor must hold, null = nothing but a
 *  session. */
export interface Pages {
  get(path: string, scope: Scope | null, handler: Handler): void
  /** Only with the token of the visitor's own forms. */
  post(path: string, scope: Scope | null, handler: Handler): void
}

/** A 404: it does not exist, or belongs to another account. */
export class PageNotFound extends Error {
  constructor (message = 'This page does not exist.') {
    super(message)
  }
}

/** A 403: the role or the key does not have the scope. */
export class NotPermitted extends Error {
  readonly scope: Scope
  constructor (scope: Scope) {
    super(`This takes the scope ${scope}`)
    this.scope = scope
  }
}

/** A 422; the message is a sentence for the visitor. */
export class FormRefused extends Error {}

/** What an action decided. Throws its refusal as an error page. */
export function resultOrThrow<T> (result: T | Refusal): T {
  if (!(result instanceof Refusal)) return result
  throw result.code === 'not_found' ? new PageNotFound(result.message) : new FormRefused(result.message)
}
