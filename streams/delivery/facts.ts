import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Nullable, Time, type FactOf } from '../define.ts'
import { EventTypeSchema } from '../webhook/facts.ts'

/** What every fact of a delivery says: `delivery` derives from event and endpoint, `event.seq` is the fact's place in EMAILS, where the
 *  body's bytes lie. Repeated on each fact, so that outcomes alone tell what still waits, and for whom. */
const owed = {
  delivery: Id('whd'),
  webhook: Id('wh'),
  /** `seq` 0: a test event, no fact of EMAILS. */
  event: Type.Object({ id: Id('ev'), type: EventTypeSchema, seq: Type.Integer({ minimum: 0 }) }),
  email: Id('em'),
  /** A test event's bytes, which lie nowhere else: made up, about nobody. */
  test: Type.Optional(Type.String({ maxLength: 4096 }))
}
export const Owed = Type.Object(owed)
export type Owed = Static<typeof Owed>

/** One event owed to one endpoint. */
export const DeliveryRequested = factType('delivery.requested', 1, Owed)

/** One HTTP request to an endpoint and what came of it. `status` null = no answer, `error` says why. */
export const DeliveryAttempted = factType('delivery.attempted', 1, Type.Object({
  ...owed,
  attempt: Type.Integer({ minimum: 1 }),
  result: Type.Union([Type.Literal('delivered'), Type.Literal('retrying'), Type.Literal('failed')]),
  status: Nullable(Type.Integer()),
  error: Nullable(Type.String({ maxLength: 500 })),
  /** The answer's first 4,096 bytes as text. */
  response: Type.String({ maxLength: 4096 }),
  durationMs: Type.Integer({ minimum: 0 }),
  firstAttemptAt: Time,
  nextAttemptAt: Nullable(Time)
}))

/** Not tried now because its endpoint is paused, is failing or has enough waiting; it waits for its time like any retry. */
export const DeliveryParked = factType('delivery.parked', 1, Type.Object({
  ...owed,
  /** Attempts made so far. */
  attempts: Type.Integer({ minimum: 0 }),
  /** Of the first attempt, or of the first parking when none has been made: the 24 hours count from here. */
  firstAttemptAt: Time,
  nextAttemptAt: Time,
  /** Since when its endpoint's pause holds it. */
  heldAt: Type.Optional(Time)
}))

/** Given up without another request. */
export const DeliveryFailed = factType('delivery.failed', 1, Type.Object({
  ...owed,
  attempts: Type.Integer({ minimum: 0 }),
  reason: Type.Union((['endpoint_deleted', 'endpoint_disabled', 'expired', 'event_gone'] as const).map(reason => Type.Literal(reason)))
}))

/** The fan-out's cursor of one partition: every fact of EMAILS up to `through` has its deliveries in the log. */
export const FanoutAdvanced = factType('fanout.advanced', 1, Type.Object({
  partition: Type.Integer({ minimum: 0 }),
  through: Type.Integer({ minimum: 0 })
}))

export const deliveryFacts = [DeliveryRequested, DeliveryAttempted, DeliveryParked, DeliveryFailed, FanoutAdvanced] as const

export type DeliveryRequested = FactOf<typeof DeliveryRequested>
export type DeliveryAttempted = FactOf<typeof DeliveryAttempted>
export type DeliveryParked = FactOf<typeof DeliveryParked>
export type DeliveryFailed = FactOf<typeof DeliveryFailed>
export type FanoutAdvanced = FactOf<typeof FanoutAdvanced>
export type DeliveryFact = DeliveryRequested | DeliveryAttempted | DeliveryParked | DeliveryFailed | FanoutAdvanced
