/** Runs once before all test files (`before` in .taprc): starts the servers and leaves their addresses for
 *  `servers.ts`. */
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { asError, deadline } from '#src/base/errors.ts'
import { isAlive, logPath, makeRunFolder, readLeftovers, runFolder, tapPids } from './handover.ts'
import { removeContainer } from './nats-container.ts'
import type { Word } from './keeper.ts'

/** Covers a first run, which may fetch an image, or build nats-server. */
const START_TIMEOUT_MS = 300_000
const LOG_CHARS_SHOWN = 4000

const tapPid = process.ppid

await clearLeftovers()
const folder = makeRunFolder(tapPid)
try {
  await startKeeper()
} catch (error) {
  const log = readFileSync(logPath(folder), 'utf8').slice(-LOG_CHARS_SHOWN)
  console.error(`# The servers of the tests did not start: ${asError(error).message}\n${log}`)
  rmSync(logPath(folder), { force: true })
  process.exitCode = 1
}

/** What runs that were killed left behind. Runs still going, or still closing, are left alone. */
async function clearLeftovers (): Promise<void> {
  for (const pid of tapPids()) {
    const leftovers = readLeftovers(runFolder(pid))
    if (pid !== tapPid && isAlive(pid)) continue
    if (leftovers !== null && isAlive(leftovers.keeperPid)) continue
    if (leftovers?.containerId) await removeContainer(leftovers.containerId).catch(() => {})
    if (leftovers !== null) rmSync(leftovers.dataFolder, { recursive: true, force: true })
    rmSync(runFolder(pid), { recursive: true, force: true })
    rmSync(logPath(runFolder(pid)), { force: true })
  }
}

async function startKeeper (): Promise<void> {
  const log = openSync(logPath(folder), 'w', 0o600)
  const keeper = spawn(process.execPath, [fileURLToPath(new URL('keeper.ts', import.meta.url)), String(tapPid)], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
    env: keeperEnvironment()
  })
  closeSync(log)
  try {
    await untilReady(keeper)
  } catch (error) {
    keeper.kill('SIGTERM')
    throw error
  } finally {
    if (keeper.connected) keeper.disconnect()
    keeper.unref()
  }
}

/** Without tap's own variables: the keeper is no test, and must not be counted as one. */
function keeperEnvironment (): NodeJS.ProcessEnv {
  const ours = Object.entries(process.env).filter(([name]) => !/^(_?TAP|NODE_OPTIONS$)/.test(name))
  return Object.fromEntries(ours)
}

async function untilReady (keeper: ChildProcess): Promise<void> {
  const ready = new Promise<void>((resolve, reject) => {
    keeper.on('error', reject)
    keeper.on('exit', code => reject(new Error(`the keeper ended with code ${code}`)))
    keeper.on('message', (word: Word) => {
      if ('say' in word) console.error(`# ${word.say}`)
      else if ('failed' in word) reject(new Error(word.failed))
      else resolve()
    })
  })
  await deadline(ready, START_TIMEOUT_MS, `not ready after ${START_TIMEOUT_MS / 1000} s`)
}
