import type { Static, TSchema } from '@sinclair/typebox'
import type { Fact, FactType } from '#streams/define.ts'
import { timestamp, type Clock } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { createAppender, type Appender } from '#src/nats/append.ts'
import type { Bus } from '#src/nats/connect.ts'

/** Where actions write: one appender a stream, shared by the whole process so that everybody's facts share commits. */
export interface Appenders {
  bus: Bus
  clock: Clock
  requests: Appender
  emails: Appender
  control: Appender
  webhooks: Appender
  inbound: Appender
}

/** Nobody stands and waits for facts about mail and callbacks as a client does for its 202: under load they gather
 *  longer, which saves the server a third of its CPU (a batch costs it about the same whatever its size). */
export function createAppenders (bus: Bus, clock: Clock): Appenders {
  return {
    bus,
    clock,
    requests: createAppender(bus, 'REQUESTS'),
    emails: createAppender(bus, 'EMAILS', { growth: 2, ms: 5 }),
    control: createAppender(bus, 'CONTROL'),
    webhooks: createAppender(bus, 'WEBHOOKS', { growth: 2, ms: 15 }),
    inbound: createAppender(bus, 'INBOUND')
  }
}

/** Why a fact is written: whose, for which ask, after which fact. */
export interface FactCause {
  account: string
  correlation: string
  causation: string | null
}

/** What follows from `fact` carries its account and correlation, and names it as the cause. */
export function causedBy (fact: Fact): FactCause {
  return { account: fact.account, correlation: fact.correlation, causation: fact.id }
}

/** Gives data its name, id and time. `id` is handed in when the data already tells it (an event's own body does). */
export function stamp<Name extends string, Data extends TSchema> (
  type: FactType<Name, Data>,
  cause: FactCause,
  data: Static<Data>,
  nowMs: number,
  id = newId('ev', nowMs)
): Fact<Name, Static<Data>> {
  return { id, type: type.name, version: type.version, time: timestamp(nowMs), ...cause, data }
}
