/** Runs once after all test files (`after` in .taprc): has the keeper stop the servers, and waits until it did. */
import { existsSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive, logPath, readLeftovers, runFolder } from './handover.ts'

const STOP_TIMEOUT_MS = 30_000
const LOOK_INTERVAL_MS = 50

const folder = runFolder(process.ppid)
const keeperPid = readLeftovers(folder)?.keeperPid
if (keeperPid === undefined || !isAlive(keeperPid)) {
  console.error('# The keeper of the servers ended before the tests did')
  process.exitCode = 1
} else {
  process.kill(keeperPid, 'SIGTERM')
  await untilGone(keeperPid)
  rmSync(logPath(folder), { force: true })
}

/** The keeper removes its folder last. */
async function untilGone (pid: number): Promise<void> {
  const endsAtMs = Date.now() + STOP_TIMEOUT_MS
  while (existsSync(folder) && isAlive(pid)) {
    if (Date.now() > endsAtMs) throw new Error('The keeper did not stop its servers in time')
    await sleep(LOOK_INTERVAL_MS)
  }
  if (existsSync(folder)) throw new Error('The keeper ended without stopping its servers')
}
