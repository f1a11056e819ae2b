import type { Say } from './bench.ts'

/** A heading and rows in columns, the first row above the others. */
export function print (say: Say, heading: string, rows: string[][]): void {
  const widths = rows[0]!.map((_cell, i) => Math.max(...rows.map(row => row[i]!.length)))
  say(`\n${heading}\n`)
  for (const row of rows) {
    say(`  ${row.map((cell, i) => i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)).join('  ').trimEnd()}`)
  }
}

/** Cores that were busy with something else; above this the figures are worth little. */
const NOISE_MAX = 0.3

export function printNoise (say: Say, ...cores: number[]): void {
  const repeat = Math.max(...cores) > NOISE_MAX ? ': repeat this on a quiet machine' : ''
  say(`\n  Other processes kept ${cores.map(ms).join(' and ')} cores busy meanwhile${repeat}.`)
}

export const rate = (perS: number): string => Math.round(perS).toLocaleString('en')
export const ms = (value: number): string => value.toFixed(2)
export const ratio = (value: number): string => value.toFixed(2)

export function median (values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
