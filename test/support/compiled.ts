import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/** Where Node keeps what it made of the source: hundreds of starts after the first take half as long. .taprc names the
 *  same folder for the tests themselves. */
export const COMPILED = {
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url))
}

// tap would have every process that a test starts tell which files it reads: a third of what its start takes, and
// nobody asks.
const spawning = createRequire(import.meta.url)('process-on-spawn') as { removeAllListeners(): void }
spawning.removeAllListeners()
process.execArgv = []
delete process.env.NODE_OPTIONS
Object.assign(process.env, COMPILED)
