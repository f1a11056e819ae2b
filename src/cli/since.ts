import { knownTime, parseTime } from '#src/base/clock.ts'
import { usageError } from './command.ts'

const UNIT_MS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Unix ms of a time that long ago: `30s`, `15m`, `1h`, `2d`. */
export function sinceMs (text: string): number {
  const ms = agoMs(text)
  if (ms === null) throw usageError('--since takes a duration like 30s, 15m, 1h or 2d.')
  return ms
}

function agoMs (text: string): number | null {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  return count === undefined ? null : knownTime(Date.now() - Number(count) * UNIT_MS[unit!]!)
}

/** Unix ms of an option that is a time. */
export function timeMs (option: string, text: string): number {
  const ms = parseTime(text)
  if (ms === null) throw usageError(`--${option} takes a time like 2027-01-31T12:00:00Z.`)
  return knownTime(ms)
}

/** Unix ms of an option that is a time, or how long ago that is. */
export function momentMs (option: string, text: string): number {
  const ms = agoMs(text) ?? parseTime(text)
  if (ms === null) {
    throw usageError(`--${option} takes a duration like 30s, 15m, 1h or 2d, or a time like 2027-01-31T12:00:00Z.`)
  }
  return knownTime(ms)
}

/** Aborted by Ctrl-C, and when the reader of stdout is gone (`| head`). */
export function stopped (): AbortSignal {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  process.stdout.on('error', () => stop.abort())
  return stop.signal
}
