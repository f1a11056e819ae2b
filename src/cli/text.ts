import stringWidth from 'string-width'

/** One line for a terminal: what strangers wrote (a subject, a server's reply) may hold line breaks, and codes that a
 *  terminal obeys. */
export function oneLine (text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim().toWellFormed()
}

/** Columns that `text` takes on a terminal: two for a Chinese sign or an emoji, none for a combining accent. */
export function widthOf (text: string): number {
  return stringWidth(text)
}

const graphemes = new Intl.Segmenter('en')

/** As much of a plain text as fits into `columns`, with an ellipsis where something is left out. */
export function cut (text: string, columns: number): string {
  // No text is wider than two columns a UTF-16 unit: most need no measuring.
  if (text.length * 2 <= columns || widthOf(text) <= columns) return text
  let kept = ''
  let room = columns - 1
  for (const { segment } of graphemes.segment(text)) {
    room -= widthOf(segment)
    if (room < 0) break
    kept += segment
  }
  return columns < 1 ? '' : `${kept}…`
}

/** `text` and the blanks up to `columns`. */
export function pad (text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - widthOf(text)))
}

/** A line of help in as many lines as it takes: what goes on stands under its description, if it has one. */
export function wrap (line: string, columns: number): string[] {
  const indent = /^ *(?:\S+(?: \S+)* {2,})?/.exec(line)![0].length
  const lines: string[] = []
  let rest = line
  while (widthOf(rest) > columns) {
    const end = rest.lastIndexOf(' ', columns)
    if (end <= indent) break
    lines.push(rest.slice(0, end))
    rest = ' '.repeat(indent) + rest.slice(end + 1)
  }
  return [...lines, rest]
}

const S = 1000
const MIN = 60 * S
const H = 60 * MIN
const D = 24 * H

/** How long something took: `39 ms`, `4.2 s`, `10m 37s`, `2h 5m`, `3d 4h`. */
export function durationText (ms: number): string {
  if (ms < S) return `${Math.round(ms)} ms`
  if (ms < MIN - 50) return `${(ms / S).toFixed(1)} s`
  const s = Math.round(ms / S)
  if (ms < H) return `${Math.floor(s / 60)}m ${s % 60}s`
  if (ms < D) return `${Math.floor(ms / H)}h ${Math.floor(ms % H / MIN)}m`
  return `${Math.floor(ms / D)}d ${Math.floor(ms % D / H)}h`
}

/** A time as it is from now: `3 min ago`, `in 5 h`; the date where that is a month away or more. */
export function relativeText (ms: number, nowMs: number): string {
  const away = Math.abs(ms - nowMs)
  if (away < S) return 'now'
  if (away >= 30 * D) return new Date(ms).toISOString().slice(0, 10)
  const [unit, name] = away < MIN ? [S, 's'] : away < H ? [MIN, 'min'] : away < 2 * D ? [H, 'h'] : [D, 'd']
  const text = `${Math.floor(away / Number(unit))} ${name}`
  return ms > nowMs ? `in ${text}` : `${text} ago`
}

/** `23:09:55`, by the clock on the wall. */
export function clockText (ms: number): string {
  return new Date(ms).toTimeString().slice(0, 8)
}
