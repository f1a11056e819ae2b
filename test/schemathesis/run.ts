/** Lets schemathesis (https://schemathesis.readthedocs.io) loose on a Jetpost of its own, after the document has been
 *  held against the metaschema of OpenAPI 3.1: `node test/schemathesis/run.ts`, with what requirements.txt names in
 *  PATH; arguments go to schemathesis. What it may do and what it need not is in schemathesis.toml and hooks.py. The
 *  last line says `N passed, N failed`: operations without, and failures found. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDnsServer } from '../support/dns-server.ts'
import { startTree, TREE_KEY } from '../support/tree.ts'

const WINDOW = ['emails:send', 'emails:batch', 'emails:list', 'templates:create', 'other'].map(name =>
  `${name}=10000000`
)

await using stack = new AsyncDisposableStack()
const ending = { teardown: (end: () => Promise<void>) => stack.defer(end) }
const folder = mkdtempSync(join(tmpdir(), 'jetpost-schemathesis-'))
stack.defer(() => rmSync(folder, { recursive: true, force: true }))
const dns = await openDnsServer(ending)
// No role `webhooks`: endpoints are whatever URL somebody made up. No name leads anywhere but to the DNS server that
// knows none.
const tree = await startTree({
  env: { JETPOST_ROLES: 'api,sender,projector,scheduler', JETPOST_DNS: dns.address, JETPOST_DOMAINS: 'example.com' }
})
stack.defer(() => tree.dispose())

const own = await prepare()
const document = join(folder, 'openapi.json')
writeFileSync(document, JSON.stringify((await tree.request('GET', '/openapi.json')).body))
const isValid = await tool('openapi-spec-validator', [document]) === 0
const isFine = await tool('schemathesis', [
  'run',
  document,
  '--url',
  tree.url,
  '--report',
  'json',
  '--report-json-path',
  join(folder, 'report.json'),
  ...process.argv.slice(2)
]) === 0
const { operations, test_cases: cases, errors } = JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8'))
// Its own key must still do: with a dead one nothing is tested, and every 401 is right.
const isAlive = (await tree.request('GET', '/api/keys')).status === 200
if (!isAlive) console.log('The key that schemathesis came with was taken from it.')
const failed = Math.max(
  cases.unique_failures + errors.length + operations.total - operations.tested,
  isValid && isFine && isAlive ? 0 : 1
)
console.log(`${Math.max(0, operations.tested - failed)} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1

/** Lays down what schemathesis.toml refers to. Resolves to the id of the key that schemathesis comes with. */
async function prepare (): Promise<string> {
  const [own] = await keysOf('acc_first')
  await tree.cli('keys', 'limit', own!.id, ...WINDOW)
  copyFileSync(join(import.meta.dirname, 'schemathesis.toml'), join(folder, 'schemathesis.toml'))
  writeFileSync(
    join(folder, 'users.json'),
    JSON.stringify({ auth: [user('ours', TREE_KEY), user('theirs', await stranger())] })
  )
  writeFileSync(
    join(folder, 'soon.txt'),
    [1, 48, 300].map(hours => `"${new Date(Date.now() + hours * 3_600_000).toISOString()}"\n`).join('')
  )
  return own!.id
}

/** Runs a program in the folder; resolves to its exit code. */
async function tool (name: string, args: string[]): Promise<number> {
  const env = { ...process.env, PYTHONPATH: import.meta.dirname, PYTHONDONTWRITEBYTECODE: '1', JETPOST_KEPT: own }
  const [code] = await once(spawn(name, args, { stdio: 'inherit', cwd: folder, env }), 'exit') as [number | null]
  return code ?? 1
}

function user (name: string, key: string) {
  return { name, fixedHeaders: [{ name: 'Authorization', value: `Bearer ${key}` }] }
}

/** A key of another account. */
async function stranger (): Promise<string> {
  const [account] = JSON.parse(await tree.cli('accounts', 'create', 'Another', '--json')) as Array<{ id: string }>
  const [made] = JSON.parse(await tree.cli('keys', 'create', '--account', account!.id, '--json')) as Array<
    { key: string }
  >
  const [listed] = await keysOf(account!.id)
  await tree.cli('keys', 'limit', listed!.id, ...WINDOW, '--account', account!.id)
  return made!.key
}

async function keysOf (account: string): Promise<Array<{ id: string }>> {
  return JSON.parse(await tree.cli('keys', 'list', '--account', account, '--json')) as Array<{ id: string }>
}
