#!/usr/bin/env node
import './node-version.js'

// Loaded only now: older Nodes cannot even parse TypeScript.
const { run } = await import('./cli.ts')
await run(process.argv.slice(2))
