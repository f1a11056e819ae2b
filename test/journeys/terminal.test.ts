import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { widthOf } from '#src/cli/text.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { atExit } from '../support/at-exit.ts'
import { COMPILED } from '../support/compiled.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { hasTerminals, jetpostOnTerminal } from '../support/terminal.ts'
import { until } from '../support/wait.ts'

const skip = hasTerminals ? false : 'there is no script of util-linux to make a terminal'
const folder = mkdtempSync(join(tmpdir(), 'jetpost-terminal-'))
t.teardown(() => rmSync(folder, { recursive: true }))

/** A service that has never been started. */
async function newEnv (): Promise<Record<string, string>> {
  return {
    NATS_URL: freshAccount().natsUrl,
    DATABASE_URL: await freshDatabase(t),
    JETPOST_SECRET: SECRET,
    JETPOST_DATA_DIR: join(folder, 'data'),
    JETPOST_REQUIRE_VERIFIED_DOMAINS: 'false',
    PORT: '0'
  }
}

async function send (url: string, key: string, fields: Record<string, unknown>): Promise<number> {
  const { status } = await fetch(`${url}/emails`, {
    method: 'POST',
    headers: { 'authorization': `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ from: FROM, subject: 'It works', html: '<h1>It works</h1>', ...fields })
  })
  return status
}

/** In place of the system's: notes what it is asked to open. */
function fakeOpener (): { PATH: string, asked(): string } {
  const path = join(folder, 'xdg-open')
  writeFileSync(
    path,
    `#!/bin/sh\necho "$1" > '${join(folder, 'opened')}.new'\nmv '${join(folder, 'opened')}.new' '${
      join(folder, 'opened')
    }'\n`
  )
  chmodSync(path, 0o755)
  return {
    PATH: `${folder}:${process.env.PATH}`,
    asked: () => (existsSync(join(folder, 'opened')) ? readFileSync(join(folder, 'opened'), 'utf8').trim() : '')
  }
}

t.test(
  'a first start on a terminal: what there is, the key once, a line a mail; o opens, q stops',
  { skip },
  async t => {
    const opener = fakeOpener()
    const start = jetpostOnTerminal(t, ['start'], { env: { ...await newEnv(), PATH: opener.PATH } })
    const text = await start.shows(/q \+ Enter or Ctrl-C stops/)
    t.match(text, /^ {2}Jetpost \d+\.\d+\.\d+ {2}ready in [\d.]+ m?s$/m)
    const [, api] = /^ {2}➜ {2}API {8}(http:\/\/127\.0\.0\.1:\d+\/api)$/m.exec(text)!
    const origin = new URL(api!).origin
    t.match(text, `➜  Dashboard  ${origin}/dashboard\n`)
    const [, mailbox] = /^ {2}➜ {2}Mailbox {4}(\S+\/catcher\?token=[\w-]{22})$/m.exec(text)!
    t.equal(new URL(mailbox!).origin, origin)
    t.equal((await fetch(mailbox!, { redirect: 'manual' })).status, 303, 'it works')
    t.equal((await fetch(mailbox!, { redirect: 'manual' })).status, 403, 'once')
    t.match(text, `➜  Docs       ${origin}/docs\n`)
    t.match(start.raw(), '\u001b]8;;', 'the link is under the address of the dashboard')
    const [, key] = /^ {2}API key {2}(jp_live_[\w-]+)$/m.exec(text)!
    t.match(text, `curl ${api}/emails \\\n  -H "Authorization: Bearer ${key}"`)
    t.notMatch(text, /^\{/m, 'no JSON')
    t.equal(await send(api!, key!, { to: 'ada@example.com' }), 202)
    await start.shows(/^\d\d:\d\d:\d\d ✓ delivered ada@example\.com "It works" [\d.]+ m?s$/m)
    t.equal(await send(api!, key!, { to: 'bounced@sandbox.jetpost.test', subject: 'Grüße \u202eevil\u2066' }), 202)
    const later = await start.shows(/✗ bounced {3}bounced@sandbox\.jetpost\.test .*550 5\.1\.1/)
    t.notMatch(later, /[\u202e\u2066]/)
    start.type('o')
    await until(() => opener.asked() !== '', 60_000)
    const page = fileURLToPath(opener.asked())
    t.equal(statSync(page).mode & 0o777, 0o600, 'the link is on no command line')
    const [, link] = /url=(http[^"]+)"/.exec(readFileSync(page, 'utf8'))!
    const shown = await fetch(link!)
    t.match(await shown.text(), 'Open the dashboard')
    t.not(new URL(link!).search, '', 'another than the first')
    start.type('q')
    t.equal(await start.ended, 0)
    t.match(start.text(), 'Stopping: what is under way is finished first.')
  }
)

t.test('elsewhere stdout has one line of JSON, and the log is JSON that names nobody', async t => {
  const child = spawn(process.execPath, ['src/bin.js', 'start'], {
    env: { PATH: process.env.PATH, ...COMPILED, ...await newEnv(), JETPOST_API_KEY: API_KEY },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  atExit(() => child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', text => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    err += text
  })
  await until(() => out.includes('\n'), 90_000)
  const { event, url } = JSON.parse(out)
  t.equal(event, 'ready')
  t.equal(await send(`${url}/api`, API_KEY, { to: 'ada@example.com' }), 202)
  await until(() => err.includes('"smtp attempt"'), 60_000)
  child.kill('SIGTERM')
  await once(child, 'close')
  t.equal(out.trim().split('\n').length, 1)
  t.notMatch(out + err, '\u001b', 'no colours')
  const log = err.split('\n').filter(line => line.startsWith('{')).map(line => JSON.parse(line))
  t.match(log.find(({ msg }) => msg === 'smtp attempt'), { role: 'sender', result: 'delivered', domain: 'example.com' })
  t.notMatch(JSON.stringify(log), /ada@example|It works/)
})

t.test('lists on a terminal', { skip }, async t => {
  const { NATS_URL, DATABASE_URL, ...rest } = await newEnv()
  const app = await startTestApp(t, { natsUrl: NATS_URL!, databaseUrl: DATABASE_URL! })
  const env = { ...rest, NATS_URL: NATS_URL!, DATABASE_URL: DATABASE_URL! }
  const name = 'A name that is longer than any terminal is wide, of somebody with too much to say 你好'
  const { id } = await app.newKey({ name, expiresMs: Date.now() + 90 * 60_000 + 30_000 })
  const run = async (args: string[], more: Record<string, string> = {}, columns = 100) => {
    const terminal = jetpostOnTerminal(t, args, { env: { ...env, ...more }, columns })
    await terminal.ended
    return terminal
  }
  const [wide, narrow, plain, help] = await Promise.all([
    run(['keys'], {}, 160),
    run(['keys'], { NO_COLOR: '1' }, 110),
    run(['doctor'], { NO_COLOR: '1' }),
    run(['help'])
  ])
  t.match(wide.raw(), '\u001b[')
  t.match(wide.text(), /in 1 h +never$/m, 'times from now')
  t.notMatch(narrow.raw(), '\u001b')
  const lines = narrow.text().trim().split('\n')
  for (const line of lines) t.ok(widthOf(line) <= 110, line)
  t.match(lines.find(line => line.startsWith(id)), '…', 'the id is whole, the rest is cut')
  t.notMatch(plain.raw(), '\u001b')
  t.match(plain.text(), /^NATS_URL +set /m, 'what is set')
  t.notMatch(plain.text(), /^JETPOST_MX_PORT/m, 'and not what is not')
  t.match(plain.text(), /^ok: node, nats, .*postgres/m)
  t.match(help.raw(), '\u001b[1mAccounts, keys, people, domains\u001b[22m')
})
