import { subjects } from '#streams/subjects.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { isUnanswered, JetStreamError } from './errors.ts'
import { getMessage } from './get.ts'

/** A worker is dead when we have been heard for so long without a break, and its last sign is so much older than ours.
 */
const DEAD_AFTER_MS = 15_000

export interface Heartbeats {
  /** For how many ms the server has acknowledged our beats without a break, until now; 0 while it does not hear us.
   *  Nobody who follows the rule of `isDead` can have taken us for dead in that time. */
  heardForMs(): number
  /** Whether `worker` is dead for certain. False while in doubt: we ourselves are not heard, or for less than
   *  DEAD_AFTER_MS. */
  isDead(worker: string): Promise<boolean>
  stop(): void
}

/** A moment by both clocks: the one jumps when it is set, the other stands still while the machine sleeps. */
interface Moment {
  wallMs: number
  steadyMs: number
}

/** Says that `worker` lives, every 2 s, in the memory stream HEARTBEATS. Tests shorten `deadAfterMs`, and all else with
 *  it. */
export function startHeartbeats (bus: Bus, worker: string, deadAfterMs = DEAD_AFTER_MS): Heartbeats {
  const beatMs = deadAfterMs / 7.5
  // Half of what makes us dead to others: a silence of this length ends what we may rely on, well before they may
  // conclude anything.
  const breakMs = deadAfterMs / 2
  let since = moment()
  let last: Moment | null = null

  async function beat (): Promise<void> {
    const sent = moment()
    const answer = await bus.nc.request(subjects.heartbeat(worker), undefined, { timeout: beatMs }).catch(() => null)
    if (answer === null || answer.json<{ error?: unknown }>().error !== undefined) return
    if (last === null || gapMs(last, sent) >= breakMs) since = sent
    last = sent
  }

  function heardForMs (): number {
    const now = moment()
    return last === null || gapMs(last, now) >= breakMs ? 0 : now.steadyMs - since.steadyMs
  }

  /** The server's clock alone is asked: ours and the other's may differ, and a NATS that stood still has heard neither.
   */
  async function isDead (other: string): Promise<boolean> {
    if (other === worker || heardForMs() < deadAfterMs) return false
    const ours = await lastSign(bus, worker)
    const theirs = await lastSign(bus, other)
    if (typeof ours !== 'number' || theirs === undefined) return false
    // None at all proves something only when the stream has been there long enough for one: made again, it has
    // forgotten the living too.
    const sinceMs = theirs ?? await streamMadeMs(bus)
    return sinceMs !== undefined && ours - sinceMs > deadAfterMs
  }

  void beat()
  const timer = setInterval(() => void beat(), beatMs)
  return { heardForMs, isDead, stop: () => clearInterval(timer) }
}

function moment (): Moment {
  return { wallMs: Date.now(), steadyMs: performance.now() }
}

function gapMs (from: Moment, to: Moment): number {
  return Math.max(to.wallMs - from.wallMs, to.steadyMs - from.steadyMs)
}

/** Unix ms of the worker's last beat by the server's clock; null = none held; undefined = no answer. */
async function lastSign (bus: Bus, worker: string): Promise<number | null | undefined> {
  try {
    const last = await getMessage(bus, 'HEARTBEATS', { last_by_subj: subjects.heartbeat(worker) }, 'leader')
    return last?.storedMs ?? null
  } catch (error) {
    if (isUnanswered(error) || error instanceof JetStreamError) return undefined
    throw error
  }
}

/** Unix ms of the stream's making by the server's clock; undefined = no answer. */
async function streamMadeMs (bus: Bus): Promise<number | undefined> {
  const info = await api<{ created: string }>(bus, 'STREAM.INFO.HEARTBEATS', undefined, 2000).catch(() => null)
  return info === null ? undefined : Date.parse(info.created)
}
