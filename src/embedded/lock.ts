import { chmodSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Complaint, errorCode } from '#src/base/errors.ts'
import { privateFolder } from './private-file.ts'

/** Long enough for a `doctor` that looks at the lock at this very moment to be gone again. */
const BUSY_TIMEOUT_MS = 300
const SQLITE_BUSY = 5

/**
 * Takes the data folder (made when missing, 0700) for this process alone and returns the function that gives it back.
 *
 * The lock is the kernel's: Node offers no flock, but the SQLite it carries holds a POSIX lock on its file for as long
 * as an exclusive transaction is open. So there is no stale lock: it ends with the process, however that ends, and a
 * reused pid cannot be mistaken for it.
 *
 * Throws a Complaint naming the other's pid when another process (or this one) holds the folder, or when the folder
 * cannot be written.
 */
export function lockDataDir (dataDir: string): () => void {
  const folder = openFolder(dataDir)
  const database = openLock(folder, BUSY_TIMEOUT_MS)
  try {
    database.exec('begin exclusive')
  } catch (error) {
    database.close()
    if (isBusy(error)) throw new Complaint(inUse(folder))
    throw error
  }
  // Not before it is ours: who holds it may let PostgreSQL's account pass.
  privateFolder(folder)
  writeFileSync(join(folder, 'jetpost.pid'), `${process.pid}\n`, { mode: 0o600 })
  return () => {
    if (database.isOpen) database.close()
  }
}

/** Whether a Jetpost holds the folder now. Takes a shared lock for an instant, so it disturbs nobody. */
export function isLocked (dataDir: string): boolean {
  const database = openLock(dataDir, 0)
  try {
    database.exec('select 1 from sqlite_schema')
    return false
  } catch (error) {
    if (isBusy(error)) return true
    throw error
  } finally {
    database.close()
  }
}

function openFolder (dataDir: string): string {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    return realpathSync(dataDir)
  } catch (error) {
    throw new Complaint(
      `The data folder ${dataDir} cannot be used (${errorCode(error)}): set JETPOST_DATA_DIR to a folder of your own.`,
      { cause: error }
    )
  }
}

// chmod goes by path on purpose: opening and closing the file here would drop a lock this process already holds on it
// (POSIX).
function openLock (folder: string, timeoutMs: number): DatabaseSync {
  const path = join(folder, 'lock')
  try {
    const database = new DatabaseSync(path, { timeout: timeoutMs })
    chmodSync(path, 0o600)
    return database
  } catch (error) {
    throw new Complaint(
      `The lock file ${path} cannot be opened: it belongs to another user, or the disk is full or read-only.`,
      { cause: error }
    )
  }
}

function isBusy (error: unknown): boolean {
  return (error as { errcode?: unknown }).errcode === SQLITE_BUSY
}

function inUse (folder: string): string {
  return `The data folder ${folder} is in use by another Jetpost (process ${holder(folder)}): ` +
    'stop that one first, or set JETPOST_DATA_DIR to another folder.'
}

function holder (folder: string): string {
  try {
    return readFileSync(join(folder, 'jetpost.pid'), 'utf8').trim() || 'unknown'
  } catch {
    return 'unknown'
  }
}
