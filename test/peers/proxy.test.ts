import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Agent, fetch, type RequestInit } from 'undici'
import { choosePort } from '#src/embedded/ports.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { atExit } from '../support/at-exit.ts'
import { until } from '../support/wait.ts'

const CADDY = process.env.JETPOST_TEST_CADDY ?? '/usr/bin/caddy'
const CADDYFILE = join(import.meta.dirname, '../../docs/deploy/cluster/Caddyfile')
/** Its admin interface is for one Caddy a machine, and its authority is nobody's but the test's. */
const GLOBAL = '{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n\n'
const skip = existsSync(CADDY) ? false : 'Caddy is not there: JETPOST_TEST_CADDY names its program'

t.test('the proxy of the cluster speaks TLS, goes to who is ready, and hides what is for those inside', {
  skip
}, async t => {
  const folder = t.testdir()
  const port = await choosePort(null, null, 'Caddy')
  const app = await startTestApp(t, { env: { JETPOST_TRUST_PROXY: '127.0.0.1' } })
  writeFileSync(join(folder, 'Caddyfile'), GLOBAL + readFileSync(CADDYFILE, 'utf8'))
  const caddy = spawn(CADDY, ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile'], {
    env: {
      HOME: folder,
      XDG_DATA_HOME: folder,
      XDG_CONFIG_HOME: folder,
      JETPOST_HOST: `localhost:${port}`,
      // Nobody listens on the first, and no test that runs beside this one is given it.
      JETPOST_UPSTREAMS: `127.0.0.1:9 ${new URL(app.url).host}`
    },
    stdio: 'ignore'
  })
  atExit(() => caddy.kill('SIGKILL'))
  t.teardown(async () => {
    caddy.kill('SIGTERM')
    if (caddy.exitCode === null) await once(caddy, 'exit')
  })
  const authority = join(folder, 'caddy/pki/authorities/local/root.crt')
  await until(() => existsSync(authority), 20_000)
  const dispatcher = new Agent({ connect: { ca: readFileSync(authority) } })
  t.teardown(() => dispatcher.destroy())
  const ask = (path: string, init: RequestInit = {}, timeoutMs = 20_000) =>
    fetch(`https://localhost:${port}${path}`, {
      ...init,
      dispatcher,
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(timeoutMs)
    })
  await until(() => ask('/api/me', {}, 3000).then(({ ok }) => ok, () => false), 30_000)
  for (let i = 0; i < 4; i++) {
    const body = JSON.stringify({ from: FROM, to: 'ada@example.com', subject: 'Hello', text: 'Hello' })
    t.equal((await ask('/api/emails', { method: 'POST', body })).status, 202, 'also when one process is gone')
  }
  for (const path of ['/metrics', '/readyz', '/healthz']) t.equal((await ask(path)).status, 404, path)
})
