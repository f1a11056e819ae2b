#!/usr/bin/env node
import module from 'node:module'
import { fileURLToPath } from 'node:url'
import './node-version.js'
import './strip-types.js'

// What Node made of the source is kept beside it: a command then starts in half the time. A place that cannot be
// written does no harm; one that others can write, like the system's for temporary files, would.
module.enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/jetpost', import.meta.url)))

// Loaded only now: older Nodes cannot even parse TypeScript.
const { run } = await import('./cli.ts')
await run(process.argv.slice(2))
