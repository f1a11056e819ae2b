import { parseTime } from '#src/base/clock.ts'
import { columnsOf, paint, paintState } from './style.ts'
import { cut, oneLine, pad, relativeText, widthOf } from './text.ts'

export type TableRow = Record<string, unknown>

const GAP = '  '
/** No column is narrowed below this. */
const COLUMN_MIN = 8
/** Columns in the colours of what they say. */
const STATES = new Set(['result', 'state', 'status'])

/** Rows as JSON, or as columns a person can read. */
export function print (rows: TableRow[], json: boolean): void {
  if (json) return console.log(JSON.stringify(rows, null, 2))
  if (rows.length === 0) return console.log('(none)')
  for (const line of tableLines(rows)) console.log(line)
}

/** One row in full: a line for each of its fields. */
export function printFields (row: TableRow): void {
  const width = longest(Object.keys(row))
  for (const [name, value] of Object.entries(row)) {
    const text = oneLine(String(value ?? '-'))
    const ms = timeOf(value)
    const shown = ms === null ? text : `${text} (${relativeText(ms, Date.now())})`
    console.log(`${paint('dim', pad(name, width))}${GAP}${STATES.has(name) ? paintState(shown) : shown}`)
  }
}

function tableLines (rows: TableRow[]): string[] {
  const names = Object.keys(rows[0]!)
  const cells = rows.map(row => names.map(name => cellText(row[name])))
  const widths = fit(names, names.map((name, i) => longest([name, ...cells.map(row => row[i]!)])))
  const lineOf = (row: string[], style: (text: string, i: number) => string) =>
    row.map((cell, i) => {
      const text = cut(cell, widths[i]!)
      const blanks = i === row.length - 1 ? '' : ' '.repeat(widths[i]! - widthOf(text))
      return style(text, i) + blanks
    }).join(GAP).trimEnd()
  return [
    lineOf(names, text => paint('dim', text)),
    ...cells.map(row => lineOf(row, (text, i) => (STATES.has(names[i]!) ? paintState(text) : text)))
  ]
}

/** Times as they are from now: --json has them exactly. */
function cellText (value: unknown): string {
  const ms = timeOf(value)
  return ms === null ? oneLine(String(value ?? '')) : relativeText(ms, Date.now())
}

function timeOf (value: unknown): number | null {
  if (value instanceof Date) return value.getTime()
  return typeof value === 'string' ? parseTime(value) : null
}

function longest (texts: string[]): number {
  return texts.reduce((width, text) => Math.max(width, widthOf(text)), 0)
}

/** Widths that fit the terminal: the widest column gives way first, but never an id or a secret, which somebody will
 *  copy. */
function fit (names: string[], widths: number[]): number[] {
  const columns = columnsOf(process.stdout)
  const fitted = [...widths]
  const flexible = names.map((_name, i) => i).filter(i => !/^(id|key)$|_id$/.test(names[i]!))
  for (let over = fitted.reduce((sum, width) => sum + width + GAP.length, -GAP.length) - columns; over > 0; over--) {
    const widest = flexible.reduce((best, i) => (fitted[i]! > (fitted[best] ?? COLUMN_MIN) ? i : best), -1)
    if (widest === -1) break
    fitted[widest]!--
  }
  return fitted
}
