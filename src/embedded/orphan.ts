import { readFileSync } from 'node:fs'
import { sleep } from '#src/base/backoff.ts'
import { run } from './run-command.ts'

const STOP_MS = 10_000
const FORCE_MS = 3_000
const LOOK_EVERY_MS = 50

/** A process of the same machine, told apart from a stranger with the same pid by a path (`mark`) in its command line.
 */
export interface Suspect {
  pid: number
  mark: string
  stopSignal: NodeJS.Signals
  forceSignal: NodeJS.Signals
}

/** Stops a server that a killed Jetpost left behind (its supervisor is stopping it already, perhaps) and waits till it
 *  is gone, 16 s at most. The caller holds the data folder's lock, so the server is nobody else's. A stranger is not
 *  touched. Returns whether none is left. */
export async function stopOrphan (suspect: Suspect): Promise<boolean> {
  if (!await isOurs(suspect)) return true
  return await stopAndWait(suspect, suspect.stopSignal, STOP_MS) ||
    await stopAndWait(suspect, suspect.forceSignal, FORCE_MS) ||
    await stopAndWait(suspect, 'SIGKILL', FORCE_MS)
}

async function stopAndWait (suspect: Suspect, signal: NodeJS.Signals, timeoutMs: number): Promise<boolean> {
  sendSignal(suspect.pid, signal)
  for (let waitedMs = 0; waitedMs < timeoutMs; waitedMs += LOOK_EVERY_MS) {
    if (!await isOurs(suspect)) return true
    await sleep(LOOK_EVERY_MS)
  }
  return false
}

async function isOurs ({ pid, mark }: Suspect): Promise<boolean> {
  return (await commandLine(pid)).includes(mark)
}

/** The command line of a process, '' when there is none or it is a zombie. /proc first: small images have no ps, macOS
 *  has no /proc. */
async function commandLine (pid: number): Promise<string> {
  if (process.platform === 'linux') return readCommandLine(pid)
  const { code, output } = await run('ps', ['-p', String(pid), '-o', 'command='], { timeoutMs: 2_000 })
  return code === 0 ? output : ''
}

function readCommandLine (pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}

/** Sends a signal; a process that is gone already is fine. */
export function sendSignal (pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch { /* gone, or not ours to stop: the caller waits for a state, not for this */ }
}

/** Is there a process with this pid, of any user? */
export function isAlive (pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
