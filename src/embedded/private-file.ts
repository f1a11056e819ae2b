import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, chmodSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** Makes `folder` (and its parents) readable by its owner alone: 0700. */
export function privateFolder (folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  chmodSync(folder, 0o700)
}

/** Writes `text` to `path`, 0600, durably and all or nothing: a crash leaves the old file or the new one. */
export function writePrivateFile (path: string, text: string): void {
  const beside = `${path}.new`
  const file = openSync(beside, 'w', 0o600)
  try {
    // Not writeSync: on a disk that is nearly full it writes a part and says so in a number.
    writeFileSync(file, text)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(beside, path)
  syncFolder(dirname(path))
}

/** Makes a rename in `folder` survive a power cut. */
export function syncFolder (folder: string): void {
  const handle = openSync(folder, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
