// `npm run format` formats the source by dprint.json; with --check it names what is not formatted, and fails.
// By dprint's WebAssembly, which is the same on every platform and installs nothing else.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createFromBuffer } from '@dprint/formatter'

const root = join(import.meta.dirname, '..', '..')
const { includes, excludes, typescript, ...global } = JSON.parse(readFileSync(join(root, 'dprint.json'), 'utf8'))
const formatter = createFromBuffer(
  readFileSync(createRequire(import.meta.url).resolve('@dprint/typescript/plugin.wasm'))
)
formatter.setConfig(global, typescript)

const isCheck = process.argv.includes('--check')
const changed = globSync(includes, { cwd: root, exclude: excludes }).filter(path => {
  const fileText = readFileSync(join(root, path), 'utf8')
  const formatted = formatter.formatText({ filePath: path, fileText })
  if (formatted === fileText) return false
  if (!isCheck) writeFileSync(join(root, path), formatted)
  return true
})
for (const path of changed) console.log(isCheck ? `${path} is not formatted: npm run format` : `${path} formatted`)
if (isCheck && changed.length > 0) process.exitCode = 1
