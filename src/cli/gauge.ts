import { columnsOf } from './style.ts'
import { cut } from './text.ts'

/** Progress on stderr: on a terminal a line that is overwritten, elsewhere only the lines of `say`. */
export interface Gauge {
  add(bytes: number): void
  /** Writes a line that stays. */
  say(line: string): void
  /** Counts from 0 again, under another name. */
  next(name: string, totalBytes: number | null): void
}

const EVERY_MS = 200

export function openGauge (): Gauge {
  let name = ''
  let total: number | null = null
  let bytes = 0
  let shownMs = 0

  return {
    next (nextName, totalBytes) {
      name = nextName
      total = totalBytes
      bytes = 0
    },
    add (more) {
      bytes += more
      if (Date.now() - shownMs < EVERY_MS) return
      shownMs = Date.now()
      drawOver(
        `${name} ${sizeText(bytes)}${
          total === null || total === 0 ? '' : ` of ${sizeText(total)}, ${Math.floor(bytes / total * 100)} %`
        }`
      )
    },
    say (line) {
      drawOver('')
      process.stderr.write(`${line}\n`)
    }
  }
}

/** Overwrites the last line of the terminal; '' = clears it. Without a terminal, nothing. */
export function drawOver (text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${cut(text, columnsOf(process.stderr))}\u001b[K`)
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB']

/** `12 kB`, `3.4 GB`. */
export function sizeText (bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const value = bytes / 1000 ** power
  return `${power === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`
}
