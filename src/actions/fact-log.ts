import type { Static, TSchema } from '@sinclair/typebox'
import type { Actor, Fact, FactType } from '#streams/define.ts'
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

/** Why a fact is written: whose, for which ask, after which fact, by whose command. */
export interface FactCause {
  account: string
  correlation: string
  causation: string | null
  actor?: Actor
  trace?: string
}

/** A command was given. */
export function askedBy ({ account, correlation, actor }: Omit<FactCause, 'causation'>): FactCause {
  return { account, correlation, causation: null, ...(actor === undefined ? {} : { actor }) }
}

/** Who commands when a part of Jetpost does. */
export function roleActor (id: string): Actor {
  return { kind: 'role', id, ip: null }
}

/** What follows from `fact` carries its account, correlation and trace, and names it as the cause: nobody commanded
 *  it. */
export function causedBy ({ id, account, correlation, trace }: Fact): FactCause {
  return { account, correlation, causation: id, ...(trace === undefined ? {} : { trace }) }
}

/** Gives data its name, id and time. `id` is handed in when the data already tells it (an event's own body does). */
export function stamp<Name extends string, Data extends TSchema> (
  type: FactType<Name, Data>,
  { account, correlation, causation, actor, trace }: FactCause,
  data: Static<Data>,
  nowMs: number,
  id = newId('ev', nowMs)
): Fact<Name, Static<Data>> {
  const { name, version } = type
  const time = timestamp(nowMs)
  const fact: Fact<Name, Static<Data>> = actor === undefined
    ? { id, type: name, version, time, account, correlation, causation, data }
    : { id, type: name, version, time, account, correlation, causation, actor, data }
  if (trace !== undefined) fact.trace = trace
  return fact
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
