// npm runs this after an install, and before `npm test` in case it skipped install scripts.
// tap comes built with its TypeScript plugin, which cannot work with TypeScript 7; .taprc turns it off, but a tap
// that rebuilds itself in the middle of a run still starts that run with the old loaders, and fails.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

if (!withoutTypescript()) {
  process.exitCode = spawnSync('tap', ['build'], { stdio: ['ignore', 'ignore', 'inherit'] }).status ?? 1
}

/** True also when tap is not installed at all: then nobody wants to test. */
function withoutTypescript () {
  try {
    const tap = createRequire(createRequire(import.meta.url).resolve('tap'))
    return !readFileSync(tap.resolve('@tapjs/test/built'), 'utf8').includes('@tapjs/typescript')
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return true
    throw error
  }
}
