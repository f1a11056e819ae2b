import { Type, type Static, type TSchema } from '@sinclair/typebox'

/** One thing that happened, as it lies in the log: the JSON body of one JetStream message. */
export interface Fact<Name extends string = string, Data = unknown> {
  /** `ev_…`, unique; also the message's `Nats-Msg-Id`, and the event's id in webhooks. */
  id: string
  /** Stored name, past tense: `email.delivered`. */
  type: Name
  /** Version of the schema of `data`, from 1. */
  version: number
  /** When it happened: RFC 3339 UTC with milliseconds. */
  time: string
  /** `acc_…`, whose it is. */
  account: string
  /** Id of the fact that led to this one; null when somebody outside asked. */
  causation: string | null
  /** Shared by all that one ask led to: the request id it came with. */
  correlation: string
  /** Who gave the command; left out where nobody did, and in facts of mail and deliveries. */
  actor?: Actor
  /** The span of that ask where it is traced, as a `traceparent`. Source: W3C Trace Context 3.2. */
  trace?: string
  data: Data
}

/** A fact together with its place in its stream. */
export interface Recorded<F extends Fact = Fact> {
  fact: F
  /** Sequence in the stream, from 1. */
  seq: number
  subject: string
}

/** What data of one version is in the next: pure, and for ever, since the log keeps what was written. */
export type Upcast = (data: any) => unknown

/** The declaration of a kind of fact: name, version and the schema of its data. */
export interface FactType<Name extends string, Data extends TSchema> {
  name: Name
  version: number
  data: Data
  /** The steps from version 1 to this one, in order: one fewer than there are versions. */
  past: readonly Upcast[]
}

export type FactOf<T> = T extends FactType<infer Name, infer Data> ? Fact<Name, Static<Data>> : never

/** A fact as a rule decides it: who asked, when, and its id come with its stamp. */
export interface Unstamped {
  type: FactType<string, TSchema>
  data: unknown
}

/** The same where the types that there may be are known. */
export type UnstampedOf<T> = T extends FactType<infer Name, infer Data>
  ? { type: FactType<Name, Data>, data: Static<Data> }
  : never

/** A changed shape is a new version, with a step that leads there from the one before: `past`. */
export function factType<Name extends string, Data extends TSchema> (
  name: Name,
  version: number,
  data: Data,
  past: readonly Upcast[] = []
): FactType<Name, Data> {
  if (past.length !== version - 1) {
    throw new Error(`${name} has version ${version} and ${past.length} steps that lead there`)
  }
  return { name, version, data, past }
}

/** A no with a code: the answer of a rule, a value and not a throw. */
export class Refusal {
  readonly code: string
  readonly message: string
  constructor (code: string, message: string) {
    this.code = code
    this.message = message
  }
}

/** What is wrong with one field, for the client that sent it. */
export interface FieldFault {
  /** As the API names it: `to[1]`, `metadata.order`, `variables[2].fallback`. */
  field: string
  code: string
  /** Says what must be, subject first: `subject must have at most 998 characters.` */
  message: string
}

/** The small schemas that facts share. */
export const Time = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' })
/** What people call a key, an account or a template. */
export const NAME_LENGTH_MAX = 200
export const Name = Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX })
export const Sequence = Type.Integer({ minimum: 1 })
export const Id = (prefix: string) => Type.String({ pattern: `^${prefix}_[0-9a-z]{1,64}$` })
export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
/** A name in a record, also one with a line break: without a pattern the values of such names would pass unseen. */
export const AnyName = Type.String({ pattern: '^[^]*$' })

/** Who asks: a key, or a user. */
export const PrincipalId = Type.String({ pattern: '^(key|usr)_[0-9a-z]{1,64}$' })

/** Who may give commands: an API key; a session of the dashboard that a key has opened; a user, in the dashboard; an
 *  operator in the shell; a part of Jetpost. */
export const ACTOR_KINDS = ['key', 'session', 'user', 'operator', 'role'] as const

/** Who gave a command, and from where. */
export const Actor = Type.Object({
  kind: Type.Union(ACTOR_KINDS.map(kind => Type.Literal(kind))),
  /** Of the key, the session or the user; the operator's user name; the role's name. */
  id: Type.String({ minLength: 1, maxLength: 200 }),
  /** The key that a session was opened with. */
  key: Type.Optional(Id('key')),
  /** The session that a user was signed in by. */
  session: Type.Optional(Id('ses')),
  /** The client's address; null = it came from this machine. */
  ip: Nullable(Type.String({ maxLength: 100 }))
})
export type Actor = Static<typeof Actor>

/** The key or the user that stands behind a command, or null. */
export function principalBehind (actor: Actor | undefined): string | null {
  if (actor === undefined) return null
  return actor.kind === 'key' || actor.kind === 'user' ? actor.id : actor.key ?? null
}
