import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'

/** A copy of generators/, with what its package.json and its requirements.txt name installed. */
const TOOLS = process.env.JETPOST_TEST_GENERATORS ?? ''
const PYTHON = join(TOOLS, 'venv', 'bin')
const TSC = join(import.meta.dirname, '../../node_modules/.bin/tsc')
const TIMEOUT_MS = 120_000

/** Where everything is installed on purpose, its absence is a fault. */
const missing = (name: string, path: string): string | false =>
  process.env.CI === 'true' || existsSync(join(TOOLS, path))
    ? false
    : `no ${name}: see test/README.md, and set JETPOST_TEST_GENERATORS`

const folder = mkdtempSync(join(tmpdir(), 'jetpost-clients-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const app = await startTestApp(t)
const document = join(folder, 'openapi.json')
writeFileSync(document, JSON.stringify((await app.request('GET', '/openapi.json', { key: null })).body))

/** Runs a program in the folder; resolves to what it printed. What it complained of is in the error. */
async function run (program: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const options = { cwd: folder, timeout: TIMEOUT_MS, env: { ...process.env, NODE_OPTIONS: '', ...env } }
  return (await promisify(execFile)(program, args, options).catch(error => {
    throw new Error(`${error.message}\n${error.stdout}\n${error.stderr}`)
  })).stdout
}

/** What every client is to have done. */
function holds (t: Test, printed: string): void {
  const { sent, listed, raw, previews, version } = JSON.parse(printed)
  t.match(sent, /^em_/)
  t.strictSame(listed, [sent], 'a page of one email')
  t.match(raw, /^Subject: Typed\r$/m, 'the message, byte for byte')
  t.strictSame(previews, ['Hello Ada', 'Hello '], 'a preview, with a body and without')
  t.equal(version, 1)
}

const USE = `
  import { client } from './client/client.gen.ts'
  import { createTemplate, getEmailRaw, listEmails, previewTemplate, sendEmail } from './client/sdk.gen.ts'

  declare const process: { argv: string[] }
  const [, , url, key] = process.argv
  client.setConfig({ baseUrl: url, auth: () => key, throwOnError: true })
  const metadata = { order: '7' }
  const mail = { from: 'hello@sandbox.jetpost.test', to: 'ada@example.com', subject: 'Typed', text: 'Hello' }
  const { data: sent } = await sendEmail({ body: { ...mail, metadata }, throwOnError: true })
  const { data: page } = await listEmails({ query: { limit: 1, metadata }, throwOnError: true })
  const path = { id: sent.id }
  const raw = await getEmailRaw({ path, query: { recipient: 0 }, parseAs: 'blob', throwOnError: true })
  const made = { name: 'Typed', text: 'Hello {{name}}' }
  const { data: { id } } = await createTemplate({ body: made, throwOnError: true })
  const body = { variables: { name: 'Ada' } }
  const { data: preview } = await previewTemplate({ path: { id }, body, throwOnError: true })
  const { data: empty } = await previewTemplate({ path: { id }, throwOnError: true })
  console.log(JSON.stringify({
    sent: sent.id,
    listed: page.data.map(email => email.id),
    raw: await raw.data.text(),
    previews: [preview.text, empty.text],
    version: preview.version
  }))
`

t.test('TypeScript: what @hey-api/openapi-ts makes is typed, sends, lists, reads and previews', {
  skip: missing('@hey-api/openapi-ts', 'node_modules/@hey-api/openapi-ts')
}, async t => {
  await run(process.execPath, [join(TOOLS, './generate.js'), document, join(folder, 'client')])
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(folder, 'use.ts'), USE)
  const flags = ['--noEmit', '--strict', '--allowImportingTsExtensions', '--skipLibCheck', '--types', '']
  const target = ['--module', 'nodenext', '--target', 'es2024', '--lib', 'es2024,dom,dom.iterable']
  await run(TSC, [...flags, ...target, 'use.ts'])
  holds(t, await run(process.execPath, ['use.ts', app.url, API_KEY]))
})

t.test('Python: what openapi-python-client makes is complete, sends, lists, reads and previews', {
  skip: missing('openapi-python-client', 'venv/bin/openapi-python-client')
}, async t => {
  const settings = ['--meta', 'none', '--output-path', 'jetpost_client', '--fail-on-warning']
  const config = ['--config', join(TOOLS, 'openapi-python-client.yml')]
  await run(join(PYTHON, 'openapi-python-client'), ['generate', '--path', document, ...settings, ...config])
  const use = join(import.meta.dirname, 'use.py')
  const env = { PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' }
  holds(t, await run(join(PYTHON, 'python'), [use, app.url, API_KEY], env))
})
