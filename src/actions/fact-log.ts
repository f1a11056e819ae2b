import type { Static, TSchema } from '@sinclair/typebox'
import type { Fact, FactType } from '#streams/define.ts'
import { timestamp, type Clock } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { createAppender, type Appender } from '#src/nats/append.ts'
import type { Bus } from '#src/nats/connect.ts'

/** Where actions read and write the log. */
export interface FactLog extends Appender {
  bus: Bus
  clock: Clock
}

export function createFactLog (bus: Bus, clock: Clock): FactLog {
  return { bus, clock, ...createAppender(bus) }
}

/** Why a fact is written: whose, for which ask, after which fact. */
export interface FactCause {
  account: string
  correlation: string
  causation: string | null
}

/** Somebody outside asked. */
export function askedBy ({ account, correlation }: Pick<FactCause, 'account' | 'correlation'>): FactCause {
  return { account, correlation, causation: null }
}

/** What follows from `fact` carries its account and correlation, and names it as the cause. */
export function causedBy (fact: Fact): FactCause {
  return { account: fact.account, correlation: fact.correlation, causation: fact.id }
}

/** Gives data its name, id and time. `id` is handed in when the data already tells it (an event's own body does). */
export function stamp<Name extends string, Data extends TSchema> (
  type: FactType<Name, Data>,
  { account, correlation, causation }: FactCause,
  data: Static<Data>,
  nowMs: number,
  id = newId('ev', nowMs)
): Fact<Name, Static<Data>> {
  const { name, version } = type
  return { id, type: name, version, time: timestamp(nowMs), account, correlation, causation, data }
}

/** When something happened, in Unix ms, and the id that its fact gets: who tells of the same occasion again tells
 *  nothing new. */
export interface FactOrigin {
  id: string
  atMs: number
}

/** Of what happens now. */
export function occasionNow ({ clock }: FactLog): FactOrigin {
  const atMs = clock.nowMs()
  return { id: newId('ev', atMs), atMs }
}
