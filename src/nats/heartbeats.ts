import { subjects } from '#streams/subjects.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { isUnanswered, JetStreamError, NO_MESSAGE } from './errors.ts'

const BEAT_MS = 2000
/** A worker is dead when NATS has stood for so long and holds no younger sign of it. */
export const DEAD_AFTER_MS = 15_000

export interface Heartbeats {
  /** Unix ms of our last beat that the server acknowledged; 0 before the first. */
  lastBeatMs (): number
  /** Whether `worker` is dead for certain. False while in doubt: NATS away, or back for less than DEAD_AFTER_MS. */
  isDead (worker: string): Promise<boolean>
  stop (): void
}

/** Says every 2 s that `worker` lives, in the memory stream HEARTBEATS. */
export function startHeartbeats (bus: Bus, worker: string): Heartbeats {
  let lastBeatMs = 0
  async function beat (): Promise<void> {
    const sentMs = Date.now()
    const answer = await bus.nc.request(subjects.heartbeat(worker), undefined, { timeout: BEAT_MS }).catch(() => null)
    if (answer !== null && answer.json<{ error?: unknown }>().error === undefined) lastBeatMs = sentMs
  }

  async function isDead (other: string): Promise<boolean> {
    const upSinceMs = bus.upSinceMs()
    if (other === worker || upSinceMs === null || Date.now() - upSinceMs < DEAD_AFTER_MS) return false
    const last = await lastSign(bus, other)
    return last !== undefined && (last === null || Date.now() - last > DEAD_AFTER_MS)
  }

  void beat()
  const timer = setInterval(() => void beat(), BEAT_MS)
  return { lastBeatMs: () => lastBeatMs, isDead, stop: () => clearInterval(timer) }
}

/** Unix ms of the worker's last beat by the server's clock; null = none held; undefined = no answer. */
async function lastSign (bus: Bus, worker: string): Promise<number | null | undefined> {
  try {
    const answer = await api<{ message: { time: string } }>(bus, 'STREAM.MSG.GET.HEARTBEATS', { last_by_subj: subjects.heartbeat(worker) }, 2000)
    return Date.parse(answer.message.time)
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return null
    if (isUnanswered(error)) return undefined
    throw error
  }
}
