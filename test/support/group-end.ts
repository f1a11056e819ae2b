import type { Ending } from './servers.ts'

let group: Ending | null = null

/** Said by a group of test files that run in this process. */
export function setGroup (t: Ending): void {
  group = t
}

/** What ends with the group, where there is one, for what its files share; else with `t`. */
export function groupEnd (t: Ending): Ending {
  return group ?? t
}
