import { readFileSync } from 'node:fs'
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
