import { Type } from '@sinclair/typebox'
import { factType, Id, Nullable, Time, type FactOf } from '../define.ts'

/** What an operator is told of. */
export const ALERT_KINDS = [
  'endpoint_failing',
  'endpoint_disabled',
  'bounce_rate',
  'complaint_rate',
  'account_suspended',
  'dead_letters',
  'projection_lag',
  'consumer_stalled',
  'consumer_lag'
] as const
export type AlertKind = typeof ALERT_KINDS[number]

/** The ways to tell it. */
export const ALERT_CHANNELS = ['mail', 'webhook'] as const
export type AlertChannel = typeof ALERT_CHANNELS[number]

/** An alert as it is from this fact on: the last fact of its subject is all there is to know. */
const alert = {
  /** The same for each alert about the same thing, one after the other. */
  alert: Id('alr'),
  kind: Type.Union(ALERT_KINDS.map(kind => Type.Literal(kind))),
  /** The thing: id of an endpoint, name of a domain, a projection or a consumer. */
  about: Type.String({ minLength: 1, maxLength: 255 }),
  what: Type.String({ minLength: 1, maxLength: 500 }),
  why: Type.String({ maxLength: 1000 }),
  /** The dashboard's page about it. */
  path: Type.String({ maxLength: 500 }),
  raisedAt: Time,
  /** null = it is not over. */
  endedAt: Nullable(Time),
  /** The fact that people are told of: the last one that raised or ended it. */
  notice: Id('ev'),
  /** By which ways they are still to be told. */
  channels: Type.Array(Type.Union(ALERT_CHANNELS.map(channel => Type.Literal(channel))), {
    maxItems: ALERT_CHANNELS.length
  }),
  /** The one process that tells them, until that time. */
  teller: Id('w'),
  tellerUntil: Time
}

export const AlertRaised = factType('alert.raised', 1, Type.Object(alert))

export const AlertEnded = factType('alert.ended', 1, Type.Object(alert))

/** They have been told by one of the ways, or it is given up. */
export const AlertTold = factType('alert.told', 1, Type.Object(alert))

/** Another process tells them, since the one before has not in its time. */
export const AlertClaimed = factType('alert.claimed', 1, Type.Object(alert))

export const alertFacts = [AlertRaised, AlertEnded, AlertTold, AlertClaimed] as const

export type AlertFact = FactOf<typeof alertFacts[number]>
export type AlertState = AlertFact['data']
