import { readFileSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { writePrivateFile } from './private-file.ts'
import { run } from './run-command.ts'

const PS_MS = 2000
/** Of the fields behind the name, from 0. Source: proc_pid_stat(5), starttime. */
const START_FIELD = 19

/** When a process began, as a text that no other process with the same pid has; null = there is none. /proc first:
 *  small images have no ps, macOS has no /proc. */
export async function readProcessStart (pid: number): Promise<string | null> {
  if (process.platform === 'linux') return readStat(pid)
  const { code, output } = await run('ps', ['-p', String(pid), '-o', 'lstart='], { timeoutMs: PS_MS })
  return code === 0 && output !== '' ? output : null
}

function readStat (pid: number): string | null {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name before them may hold blanks and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // A process that has ended and whose parent has not asked for it runs no more.
    return fields[0] === 'Z' ? null : `${boot} ${fields[START_FIELD]}`
  } catch {
    return null
  }
}

/** What a running Jetpost with the role `api` says of itself in its data folder (0600), for commands. */
export interface RunningService {
  pid: number
  /** When the process began, as the kernel has it: another process may have the same pid later. */
  processStart: string
  /** RFC 3339. */
  startedAt: string
  /** Where its HTTP server listens, for programs of this machine. */
  url: string
  /** The settings in its environment that hold no secret. */
  settings: Record<string, string>
  /** Names of the others that are set there. */
  withheld: string[]
  /** Which secrets it has, newest first; a note of an older version does not say. */
  keyIds?: readonly string[]
}

const fileIn = (dataDir: string): string => join(dataDir, 'service.json')

/** Leaves it in the data folder; not where there is no such folder, which then holds nothing of this service. False =
 *  not written. Throws when the folder cannot be written. */
export async function writeRunning (
  dataDir: string,
  service: Omit<RunningService, 'pid' | 'processStart'>
): Promise<boolean> {
  if (!existsSync(dataDir)) return false
  const processStart = await readProcessStart(process.pid)
  if (processStart === null) return false
  const running: RunningService = { pid: process.pid, processStart, ...service }
  writePrivateFile(fileIn(dataDir), `${JSON.stringify(running, null, 2)}\n`)
  return true
}

/** Removes what this process has left. Another one's stays. */
export function forgetRunning (dataDir: string): void {
  if (parse(dataDir)?.pid === process.pid) rmSync(fileIn(dataDir), { force: true })
}

/** The service that has left its file here and still runs; null = there is none. A file left by a process that was
 *  killed does not count. */
export async function readRunning (dataDir: string): Promise<RunningService | null> {
  const service = parse(dataDir)
  if (service === null || await readProcessStart(service.pid) !== service.processStart) return null
  return service
}

/** A file that another version wrote, or that another user owns, says nothing. */
function parse (dataDir: string): RunningService | null {
  try {
    const { pid, processStart, url, settings, withheld, ...rest } = JSON.parse(readFileSync(fileIn(dataDir), 'utf8'))
    const isWhole = Number.isInteger(pid) && typeof processStart === 'string' && typeof url === 'string' &&
      typeof settings === 'object' && settings !== null && Array.isArray(withheld)
    return isWhole ? { pid, processStart, url, settings, withheld, ...rest } : null
  } catch {
    return null
  }
}
