import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { readProcessStart } from './process-start.ts'
import { writePrivateFile } from './private-file.ts'

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
