/** Figures as a person reads them. */

/** Units of time, the largest first. */
export const UNITS: Array<[unit: string, ms: number]> = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], [
  's',
  1000
]]

export function number (value: number): string {
  return value.toLocaleString('en-GB')
}

/** `1 fact`, `3,000 facts`. */
export function counted (count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`
}

/** `0.0312` → `3.12 %`. */
export function percent (rate: number | null): string {
  return rate === null ? '–' : `${(rate * 100).toFixed(rate > 0 && rate < 0.01 ? 2 : 1)} %`
}

/** A length of time: `270 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `30 d`. */
export function duration (ms: number): string {
  if (ms < 1000) return `${Math.floor(ms)} ms`
  if (ms < 60_000) return `${Math.floor(ms / 100) / 10} s`
  const from = UNITS.findIndex(([, unitMs]) => ms >= unitMs)
  const [[big, bigMs], [small, smallMs]] = [UNITS[from]!, UNITS[from + 1]!]
  const rest = Math.floor(ms % bigMs / smallMs)
  return `${Math.floor(ms / bigMs)} ${big}${rest === 0 ? '' : ` ${rest} ${small}`}`
}
