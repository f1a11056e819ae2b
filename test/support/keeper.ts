/**
 * Holds the servers of one test run. `up.ts` must end before the first test starts, and embedded servers die with
 * the process that started them, so this one stays: until `down.ts` says stop, or the tap it belongs to is gone.
 *
 * Started as `keeper.ts <pid of tap>`; tells its parent by IPC what it does: see `Word`.
 */
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { asError, deadline } from '#src/base/errors.ts'
import { isAlive, makeDataFolder, runFolder, writeLeftovers, writeServers, type Servers } from './handover.ts'
import { openNats } from './open-nats.ts'
import { openPostgres } from './open-postgres.ts'

/** What the keeper tells `up.ts`. */
export type Word = { say: string } | { ready: true } | { failed: string }

const WATCH_INTERVAL_MS = 1000
const CLOSE_TIMEOUT_MS = 20_000

const tapPid = Number(process.argv[2])
const folder = runFolder(tapPid)
const dataFolder = makeDataFolder(folder)
const held = new AsyncDisposableStack()
const told = new AbortController()

process.on('SIGTERM', () => told.abort())
process.on('SIGINT', () => told.abort())
// Before `ready` the parent lets go only by dying; afterwards it means nothing.
process.on('disconnect', () => {
  if (!isOpen) told.abort()
})
let isOpen = false

const opened = open()
void opened.catch(error => tell({ failed: asError(error).message }).finally(() => told.abort()))
await untilToldOrAlone()
await close()

async function open (): Promise<void> {
  writeLeftovers(folder, { keeperPid: process.pid, dataFolder, containerId: null })
  const [nats, adminUrl] = await Promise.all([openAndHoldNats(), openAndHoldPostgres()])
  writeServers(folder, { nats, adminUrl })
  isOpen = true
  await tell({ ready: true })
}

async function openAndHoldNats (): Promise<Servers['nats']> {
  const { host, port, password, containerId, stop } = await openNats({ folder: dataFolder, say, signal: told.signal })
  held.defer(stop)
  writeLeftovers(folder, { keeperPid: process.pid, dataFolder, containerId })
  return { host, port, password }
}

async function openAndHoldPostgres (): Promise<string> {
  const { adminUrl, stop } = await openPostgres({
    folder: dataFolder,
    say: text => console.error(text),
    signal: told.signal
  })
  held.defer(stop)
  return adminUrl
}

async function untilToldOrAlone (): Promise<void> {
  while (!told.signal.aborted && isAlive(tapPid)) {
    await sleep(WATCH_INTERVAL_MS, undefined, { signal: told.signal }).catch(() => {})
  }
}

/** Ends what was opened, then the folder: that it is gone is how `down.ts` sees the end. */
async function close (): Promise<void> {
  told.abort()
  const closing = opened.catch(() => {}).then(() => held.disposeAsync())
  await deadline(closing, CLOSE_TIMEOUT_MS, 'the servers did not stop in time').catch(error => console.error(error))
  rmSync(dataFolder, { recursive: true, force: true })
  rmSync(folder, { recursive: true, force: true })
  process.exit(0)
}

function say (text: string): void {
  void tell({ say: text })
}

/** Resolves when the parent has it, or is not there to hear. */
function tell (word: Word): Promise<void> {
  return new Promise(resolve => {
    if (process.connected) process.send?.(word, () => resolve())
    else resolve()
  })
}
