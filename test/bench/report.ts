/** A heading and rows in columns, the first row above the others. */
export function print (heading: string, rows: string[][]): void {
  const widths = rows[0]!.map((_cell, i) => Math.max(...rows.map(row => row[i]!.length)))
  console.log(`\n${heading}\n`)
  for (const row of rows) {
    console.log(
      `  ${row.map((cell, i) => i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)).join('  ').trimEnd()}`
    )
  }
}

export const rate = (perS: number): string => Math.round(perS).toLocaleString('en')
export const ms = (value: number): string => value.toFixed(2)
export const ratio = (value: number): string => value.toFixed(2)

export function median (values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}
