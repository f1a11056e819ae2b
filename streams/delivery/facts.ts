import { Type, type Static } from '@sinclair/typebox'
import { AnyName, factType, Id, Nullable, Time, type FactOf } from '../define.ts'
import { DELIVERY_KINDS } from '../subjects.ts'
import { BATCH_EVENTS_MAX, EventTypeSchema, URL_LENGTH_MAX } from '../webhook/facts.ts'

/** One event of a delivery. `seq` is the fact's sequence in EMAILS, which holds the body's bytes; 0: a test event, no
 *  fact of EMAILS. */
export const Member = Type.Object({
  id: Id('ev'),
  type: EventTypeSchema,
  seq: Type.Integer({ minimum: 0 }),
  email: Id('em')
})
export type Member = Static<typeof Member>

/** What every fact of a delivery holds; the id `delivery` derives from events and endpoint. Repeated on each fact, so
 *  that a delivery can continue from its outcome alone. */
const owed = {
  delivery: Id('whd'),
  webhook: Id('wh'),
  /** The replay that requested this run, null = the first run. Of two replays the later one has the greater id, and
   *  overrules the other. */
  replay: Nullable(Id('rpl')),
  /** The events of its request, oldest first: one, unless it is a batch. */
  events: Type.Array(Member, { minItems: 1, maxItems: BATCH_EVENTS_MAX }),
  /** Sent as a batch's body, also with one event. */
  batch: Type.Boolean(),
  /** How its events are worded, as the endpoint was made; left out = as they are stored. */
  format: Type.Optional(Type.Literal('resend')),
  /** A test event's bytes, which are stored nowhere else: made up, about nobody. */
  test: Type.Optional(Type.String({ maxLength: 4096 }))
}
export const Owed = Type.Object(owed)
export type Owed = Static<typeof Owed>

/** Why there was no response. */
export const ERROR_KINDS = [
  'timeout',
  'dns',
  'connect',
  'tls',
  'reset',
  'protocol',
  'refused',
  'unsigned',
  'other'
] as const
export type ErrorKind = typeof ERROR_KINDS[number]

/** An endpoint is to get these events: one, or a batch, whose members are fixed from here on. */
export const DeliveryRequested = factType('delivery.requested', 1, Owed)

/** One HTTP request to an endpoint and its result. `status` null = no response, `error` says why. */
export const DeliveryAttempted = factType(
  'delivery.attempted',
  1,
  Type.Object({
    ...owed,
    attempt: Type.Integer({ minimum: 1 }),
    result: Type.Union([Type.Literal('delivered'), Type.Literal('retrying'), Type.Literal('failed')]),
    status: Nullable(Type.Integer()),
    error: Nullable(Type.String({ maxLength: 500 })),
    errorKind: Nullable(Type.Union(ERROR_KINDS.map(kind => Type.Literal(kind)))),
    /** The request, without its body, which is the events'. */
    request: Type.Object({
      url: Type.String({ maxLength: URL_LENGTH_MAX }),
      headers: Type.Record(AnyName, Type.String())
    }),
    /** The first 4,096 bytes of the response as text. */
    response: Type.String({ maxLength: 4096 }),
    durationMs: Type.Integer({ minimum: 0 }),
    firstAttemptAt: Time,
    nextAttemptAt: Nullable(Time)
  })
)

/** Said once more as it waits, behind newer facts: so that the cursor of its queue can pass the place where it was. */
export const DeliveryMoved = factType(
  'delivery.moved',
  1,
  Type.Object({
    ...owed,
    /** Attempts made so far. */
    attempts: Type.Integer({ minimum: 1 }),
    firstAttemptAt: Time,
    nextAttemptAt: Time
  })
)

/** Given up without another request. */
export const DeliveryFailed = factType(
  'delivery.failed',
  1,
  Type.Object({
    ...owed,
    attempts: Type.Integer({ minimum: 0 }),
    reason: Type.Union(
      (['endpoint_deleted', 'endpoint_disabled', 'expired', 'event_gone'] as const).map(reason => Type.Literal(reason))
    )
  })
)

/** One event of an endpoint that wants batches: it waits for others. */
export const BatchJoined = factType('batch.joined', 1, Type.Object({ webhook: Id('wh'), event: Member }))

/** The endpoint's members up to `through` (a sequence of WEBHOOKS) are in batches, of which `delivery` is the last.
 *  Appended together with their `delivery.requested`. */
export const BatchFormed = factType(
  'batch.formed',
  1,
  Type.Object({ webhook: Id('wh'), through: Type.Integer({ minimum: 1 }), delivery: Id('whd') })
)

/** The fan-out's cursor of one partition: every fact of EMAILS up to `through` has its deliveries in the log. */
export const FanoutAdvanced = factType(
  'fanout.advanced',
  1,
  Type.Object({
    partition: Type.Integer({ minimum: 0 }),
    through: Type.Integer({ minimum: 0 })
  })
)

/** Queues in one cursor that have a place of their own: about 200 kB. */
export const QUEUES_BEHIND_MAX = 2000

/** How far the dispatch of one partition has come. Each delivery whose last fact lies at or before these sequences of
 *  WEBHOOKS has ended: of new deliveries, and of those that replays asked for. `behind`: queues that have come less
 *  far. */
export const DispatchAdvanced = factType(
  'dispatch.advanced',
  1,
  Type.Object({
    partition: Type.Integer({ minimum: 0 }),
    delivery: Type.Integer({ minimum: 0 }),
    redelivery: Type.Integer({ minimum: 0 }),
    behind: Type.Array(
      Type.Object({
        webhook: Id('wh'),
        kind: Type.Union(DELIVERY_KINDS.map(kind => Type.Literal(kind))),
        through: Type.Integer({ minimum: 0 })
      }),
      { maxItems: QUEUES_BEHIND_MAX }
    )
  })
)

export const deliveryFacts = [
  DeliveryRequested,
  DeliveryAttempted,
  DeliveryMoved,
  DeliveryFailed,
  BatchJoined,
  BatchFormed,
  FanoutAdvanced,
  DispatchAdvanced
] as const

export type DeliveryRequested = FactOf<typeof DeliveryRequested>
export type DeliveryAttempted = FactOf<typeof DeliveryAttempted>
export type DeliveryMoved = FactOf<typeof DeliveryMoved>
export type DeliveryFailed = FactOf<typeof DeliveryFailed>
export type BatchJoined = FactOf<typeof BatchJoined>
export type BatchFormed = FactOf<typeof BatchFormed>
export type FanoutAdvanced = FactOf<typeof FanoutAdvanced>
export type DispatchAdvanced = FactOf<typeof DispatchAdvanced>
export type DeliveryFact =
  | DeliveryRequested
  | DeliveryAttempted
  | DeliveryMoved
  | DeliveryFailed
  | BatchJoined
  | BatchFormed
  | FanoutAdvanced
  | DispatchAdvanced
