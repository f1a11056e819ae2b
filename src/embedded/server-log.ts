import { closeSync, copyFileSync, openSync, readSync, rmSync, statSync, truncateSync } from 'node:fs'

const SIZE_BYTES_MAX = 10 * 1024 * 1024
const TAIL_BYTES = 4096

/** How long the file is; 0 when there is none. */
export function sizeBytes (path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/** Keeps a server's log below about 20 MB: past 10 MB it is copied to `<path>.1` and emptied. The server may go on
 *  writing meanwhile, because it appends; what it writes during the copy is lost. Never throws: on a full disk the copy
 *  is given up, the emptying is not. */
export function boundLog (path: string): void {
  try {
    if (sizeBytes(path) <= SIZE_BYTES_MAX) return
    rmSync(`${path}.1`, { force: true })
    copyFileSync(path, `${path}.1`)
  } catch {
    rmSync(`${path}.1`, { force: true })
  }
  try {
    truncateSync(path, 0)
  } catch {
    // A log that cannot be emptied is no reason to stop the service; the next look tries again.
  }
}

/** The line that says most about an end: the last one with FATAL, PANIC or ERROR in it, else the last. Only what came
 *  after `fromBytes`. */
export function lastWords (path: string, fromBytes: number): string {
  const lines = tail(path, fromBytes).split('\n').map(line => line.trim()).filter(line => line !== '')
  const worst = lines.findLast(line => /\b(FATAL|PANIC|ERROR|FTL|error)\b/.test(line))
  return worst ?? lines.at(-1) ?? 'it said nothing'
}

function tail (path: string, fromBytes: number): string {
  const end = sizeBytes(path)
  const start = Math.max(Math.min(fromBytes, end), end - TAIL_BYTES)
  if (start >= end) return ''
  const bytes = Buffer.alloc(end - start)
  const file = openSync(path, 'r')
  try {
    return bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, start))
  } finally {
    closeSync(file)
  }
}
