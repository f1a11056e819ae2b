import type { UnstampedOf } from '../define.ts'
import {
  AlertClaimed,
  AlertEnded,
  AlertRaised,
  AlertTold,
  type alertFacts,
  type AlertChannel,
  type AlertKind,
  type AlertState
} from './facts.ts'

/** Something that an operator must know while it holds. */
export interface Condition extends Pick<AlertState, 'kind' | 'about' | 'what' | 'why' | 'path'> {
  /** Of the thing it is about: of two conditions of one thing the last one counts. */
  alert: string
}

/** How long a condition must hold before it is told, and must not hold before it is over, in ms. What follows from a
 *  fact does so at once; a figure goes up and down. */
export const PATIENCE_MS: Record<AlertKind, { holdsMs: number, overMs: number }> = {
  endpoint_failing: { holdsMs: 0, overMs: 0 },
  endpoint_disabled: { holdsMs: 0, overMs: 0 },
  bounce_rate: { holdsMs: 0, overMs: 3_600_000 },
  complaint_rate: { holdsMs: 0, overMs: 3_600_000 },
  account_suspended: { holdsMs: 0, overMs: 0 },
  dead_letters: { holdsMs: 0, overMs: 0 },
  projection_lag: { holdsMs: 120_000, overMs: 300_000 },
  consumer_stalled: { holdsMs: 120_000, overMs: 300_000 },
  // A large sending keeps the workers busy for a while.
  consumer_lag: { holdsMs: 900_000, overMs: 300_000 }
}

/** A notice that could not be given for so long is given up, in ms. */
export const TELL_MS_MAX = 24 * 3_600_000
/** How long one process has to give a notice before another does, in ms; it begins none in the last of them. */
const TELLER_MS = 120_000
const TELLER_MARGIN_MS = 30_000

/** Who decides, when, and how people are told. */
export interface AlertContext {
  /** Unix ms. */
  nowMs: number
  /** The id that the fact will have. */
  id: string
  teller: string
  channels: AlertChannel[]
}

type AlertDecision = UnstampedOf<typeof alertFacts[number]>

const timeOf = (ms: number): string => new Date(ms).toISOString()

export function isRaised (state: AlertState | null): state is AlertState {
  return state !== null && state.endedAt === null
}

/** The alert begins, or another kind of it does; null = it has been raised as it is. */
export function raise (state: AlertState | null, condition: Condition, context: AlertContext): AlertDecision | null {
  if (isRaised(state) && state.kind === condition.kind) return null
  const { nowMs, id, teller, channels } = context
  return {
    type: AlertRaised,
    data: {
      ...condition,
      raisedAt: timeOf(nowMs),
      endedAt: null,
      notice: id,
      channels,
      teller,
      tellerUntil: timeOf(nowMs + TELLER_MS)
    }
  }
}

/** The alert is over. Who was never told that it began is not told that it ended. */
export function end (state: AlertState, { nowMs, id, teller, channels }: AlertContext): AlertDecision {
  return {
    type: AlertEnded,
    data: {
      ...state,
      endedAt: timeOf(nowMs),
      notice: id,
      channels: channels.filter(channel => !state.channels.includes(channel)),
      teller,
      tellerUntil: timeOf(nowMs + TELLER_MS)
    }
  }
}

/** By these ways nobody has to be told any more. */
export function tell (state: AlertState, done: readonly AlertChannel[]): AlertDecision {
  return { type: AlertTold, data: { ...state, channels: state.channels.filter(channel => !done.includes(channel)) } }
}

/** What a process has to do about a notice. */
export type TellerDuty = 'nothing' | 'tell' | 'claim' | 'give up'

export function dutyOf (state: AlertState, { nowMs, teller }: Pick<AlertContext, 'nowMs' | 'teller'>): TellerDuty {
  if (state.channels.length === 0) return 'nothing'
  if (nowMs - Date.parse(state.endedAt ?? state.raisedAt) > TELL_MS_MAX) return 'give up'
  const leftMs = Date.parse(state.tellerUntil) - nowMs
  if (state.teller === teller) return leftMs > TELLER_MARGIN_MS ? 'tell' : 'claim'
  return leftMs > 0 ? 'nothing' : 'claim'
}

/** This process tells from now on. */
export function claim (state: AlertState, { nowMs, teller }: Pick<AlertContext, 'nowMs' | 'teller'>): AlertDecision {
  return { type: AlertClaimed, data: { ...state, teller, tellerUntil: timeOf(nowMs + TELLER_MS) } }
}
