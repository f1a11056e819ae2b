// Asks the Chromium of the cache in argv[2] for its version.
import { execFileSync } from 'node:child_process'
import { chromiumPath } from './chromium.ts'

const path = await chromiumPath(process.argv[2])
process.send?.({ path, version: execFileSync(path, ['--version'], { encoding: 'utf8' }) })
