import { readdirSync, readFileSync } from 'node:fs'

/** What processes have used so far, and hold now. */
export interface Usage {
  /** User and system time, children that have ended included. */
  cpuMs: number
  rssMib: number
  /** Shared pages counted in parts: the sum over processes is what they really hold. */
  pssMib: number
}

/** The kernel counts in USER_HZ, which is 100 on every Linux that Node runs on. */
const TICK_MS = 10

/** A process and all its descendants, together; null counts nothing. */
export function usageOf (root: number | null): Usage {
  const usages = root === null ? [] : withDescendants(root).flatMap(pid => read(pid))
  const sum = (pick: (usage: Usage) => number) => usages.reduce((total, usage) => total + pick(usage), 0)
  return {
    cpuMs: sum(usage => usage.cpuMs),
    rssMib: Math.round(sum(usage => usage.rssMib)),
    pssMib: Math.round(sum(usage => usage.pssMib))
  }
}

/** As `usageOf`, without the descendants. */
export function usageOfOne (pid: number | null): Usage {
  const [usage = { cpuMs: 0, rssMib: 0, pssMib: 0 }] = pid === null ? [] : read(pid)
  return { ...usage, rssMib: Math.round(usage.rssMib), pssMib: Math.round(usage.pssMib) }
}

/** CPU time the whole machine has spent so far, and the part that is neither this process nor its descendants. */
export interface Noise {
  foreignMs: number
  atMs: number
}

export function noiseNow (): Noise {
  const [user, nice, system, , , irq, softIrq, steal] = readFileSync('/proc/stat', 'latin1').split('\n')[0]!.trim()
    .split(/\s+/).slice(1).map(Number)
  const busyMs = (user! + nice! + system! + irq! + softIrq! + steal!) * TICK_MS
  return { foreignMs: busyMs - usageOf(process.pid).cpuMs, atMs: performance.now() }
}

/** Cores that other processes kept busy between two moments. */
export function foreignCores (before: Noise, after: Noise): number {
  return Math.max(0, (after.foreignMs - before.foreignMs) / (after.atMs - before.atMs))
}

function withDescendants (root: number): number[] {
  const found = new Set([root])
  const parents = readdirSync('/proc').filter(name => /^\d+$/.test(name)).map(name =>
    [Number(name), parentOf(Number(name))] as const
  )
  for (let before = -1; before !== found.size;) {
    before = found.size
    for (const [pid, parent] of parents) if (parent !== null && found.has(parent)) found.add(pid)
  }
  return [...found]
}

function parentOf (pid: number): number | null {
  try {
    return Number(statOf(pid)[1])
  } catch {
    return null
  }
}

/** The fields of /proc/<pid>/stat from the third on: the name before them may hold blanks. */
function statOf (pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
  return text.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** Nothing for a process that has just ended. */
function read (pid: number): Usage[] {
  try {
    const ticks = statOf(pid).slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
    return [{
      cpuMs: ticks * TICK_MS,
      rssMib: kibibytes(`/proc/${pid}/status`, 'VmRSS') / 1024,
      pssMib: kibibytes(`/proc/${pid}/smaps_rollup`, 'Pss') / 1024
    }]
  } catch {
    return []
  }
}

function kibibytes (path: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(path, 'latin1'))?.[1] ?? 0)
}
