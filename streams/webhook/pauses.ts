/** Unix ms; `toMs` null = it lasts. */
export interface Pause {
  fromMs: number
  toMs: number | null
}

/** A delivery's 24 hours may be stopped for 24 more: what a pause took before that counts no longer. */
const PAUSE_AGE_MS_MAX = 48 * 3_600_000
/** Of pauses in quick succession the oldest are forgotten: 24 h may then come a little sooner. */
const PAUSES_MAX = 50

/** An endpoint's pauses when it is paused, or goes on, at `nowMs`. */
export function pausesAfter (
  { paused, pauses }: { paused: boolean, pauses: Pause[] },
  pausedNow: boolean,
  nowMs: number
): Pause[] {
  if (paused === pausedNow) return pauses
  const ended = pauses.map(({ fromMs, toMs }) => ({ fromMs, toMs: toMs ?? nowMs }))
  const recent = ended.filter(({ toMs }) => toMs > nowMs - PAUSE_AGE_MS_MAX).slice(1 - PAUSES_MAX)
  return pausedNow ? [...recent, { fromMs: nowMs, toMs: null }] : recent
}
