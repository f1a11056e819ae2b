import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { atExit } from './at-exit.ts'
import packageJson from '../../package.json' with { type: 'json' }

const ROOT = join(import.meta.dirname, '..', '..')
const CACHE = join(ROOT, 'node_modules', '.cache', 'jetpost-chromium')
const VERSION = packageJson.devDependencies['@sparticuz/chromium']
/** The package unpacks into the folder for temporary files, whatever else is writing there. */
const UNPACK = 'await (await import("@sparticuz/chromium")).default.executablePath()'
const UNPACK_MS = 120_000

/** The path of Chromium, unpacked when no run has done so before. Processes that come at the same time unpack into a
 *  folder each, and the first to finish gives it its name: nobody starts a file that somebody still writes. */
export async function chromiumPath (cache = CACHE): Promise<string> {
  const folder = join(cache, VERSION)
  const path = join(folder, 'chromium')
  if (existsSync(path)) return path
  mkdirSync(cache, { recursive: true })
  const own = mkdtempSync(join(cache, 'new-'))
  const remove = (): void => rmSync(own, { recursive: true, force: true })
  atExit(remove)
  try {
    const env = { ...process.env, TMPDIR: own }
    await promisify(execFile)(process.execPath, ['--eval', UNPACK], { cwd: ROOT, env, timeout: UNPACK_MS })
    renameSync(own, folder)
  } catch (error) {
    if (!existsSync(path)) throw error
  } finally {
    remove()
  }
  return path
}
