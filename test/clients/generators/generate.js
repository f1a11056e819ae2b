// Makes a TypeScript client: `node generate.js <OpenAPI document> <folder>`.
import { createClient } from '@hey-api/openapi-ts'

const [input, path] = process.argv.slice(2)
await createClient({ input, output: { path, module: { extension: '.ts' } }, logs: { level: 'warn', file: false } })
