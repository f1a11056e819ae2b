import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request as forward } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readConfig } from '#src/base/config.ts'
import { examineProduction } from '#src/cli/doctor-production.ts'
import { startTestApp } from '../support/app.ts'
import { createAuthority, type Certificate } from '../support/certificates.ts'
import { jetpostHere } from '../support/command.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { jetpost } from '../support/jetpost.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'

const STEPS = ['public URL', 'proxy and TLS', 'mail out', 'domain', 'DNS', 'bounce domain', 'backups', 'alerts']
const folder = mkdtempSync(join(tmpdir(), 'jetpost-production-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

/** A proxy with TLS in front of `url`; resolves to its port. */
async function openProxy (t: Test, { key, cert }: Certificate, url: () => string): Promise<number> {
  const server = createServer({ key, cert }, (incoming, outgoing) => {
    const asked = forward(url() + incoming.url, { method: incoming.method, headers: incoming.headers }, answer => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    })
    asked.on('error', () => outgoing.destroy())
    incoming.pipe(asked)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

t.test('with nothing set, each step says what must be done, in the order of the page', async t => {
  const { code, out } = await jetpostHere(['doctor', '--production', '--json'], { JETPOST_DATA_DIR: folder })
  const steps = JSON.parse(out) as Array<{ name: string, ok: boolean, says: string }>
  t.equal(code, 1)
  t.strictSame(steps.map(({ name, ok }) => [name, ok]), STEPS.map(name => [name, false]))
  t.ok(steps.every(({ says }) => says.endsWith('.')), 'in sentences')
  const table = await jetpostHere(['doctor', '--production'], { JETPOST_DATA_DIR: folder })
  t.match(table.out, /^1\. public URL +FAILED +Set JETPOST_PUBLIC_URL to the https URL /m)
  const page = readFileSync(join(import.meta.dirname, '../../docs/production.md'), 'utf8')
  const titles = [...page.matchAll(/^(\d)\. \*\*([^*]+)\*\*/gm)].map(([, , title]) => title!.toLowerCase())
  t.strictSame(titles, STEPS.map(name => name.toLowerCase()), 'the page has the same steps')
})

t.test('what is done is ok, and what is not says what must be', async t => {
  const dns = await openDnsServer(t)
  const relay = await startSink()
  t.teardown(() => relay.stop())
  const authority = createAuthority(60)
  const shared = { natsUrl: freshAccount().natsUrl, databaseUrl: await freshDatabase(t) }
  const app = await startTestApp(t, {
    ...shared,
    env: { JETPOST_DNS: dns.address, JETPOST_BOUNCE_DOMAIN: 'bounces.example' }
  })
  const port = await openProxy(t, authority.certify('mail.example'), () => app.url)
  dns.host('mail.example', ['127.0.0.1'])
  dns.mx('bounces.example', [10, 'mail.example'])
  const env: Record<string, string> = {
    NATS_URL: shared.natsUrl,
    DATABASE_URL: shared.databaseUrl,
    JETPOST_SECRET: SECRET,
    JETPOST_DNS: dns.address,
    JETPOST_PUBLIC_URL: `https://mail.example:${port}`,
    JETPOST_TRUST_PROXY: '127.0.0.1',
    SMTP_URL: relay.url,
    JETPOST_BOUNCE_DOMAIN: 'bounces.example',
    JETPOST_INBOUND_PORT: '2525',
    JETPOST_ALERT_TO: 'ops@example.net',
    JETPOST_ALERT_FROM: 'alerts@shop.example'
  }
  const examine = async (changes: Record<string, string> = {}, ca = authority.ca, nowMs = Date.now()) => {
    const all = { ...env, ...changes }
    return await examineProduction({ config: readConfig(all), env: all, service: null, missing: [] }, { ca, nowMs })
  }
  const expect = async (name: string, ok: boolean, says: RegExp, changes?: Record<string, string>, ca?: string) => {
    const steps = await examine(changes, ca)
    t.match(steps.find(step => step.name === name), { ok, says }, `${name} ${JSON.stringify(changes ?? {})}`)
  }

  await expect('domain', false, /^Add the domain that you send from: npx jetpost domains add example\.com\.$/)
  await expect('alerts', false, /^JETPOST_ALERT_FROM must be on a domain of the first account: shop\.example is not\.$/)
  const { body: domain } = await app.request('POST', '/api/domains', { body: { name: 'shop.example' } })
  await expect('DNS', false, /^Publish the DNS records of shop\.example: npx jetpost domains show shop\.example\.$/)
  await expect('alerts', false, /^JETPOST_ALERT_FROM must be on a verified domain/)
  for (const { type, name, value } of domain.records) {
    if (type === 'CNAME') dns.cname(name, value)
    else dns.txt(name, value)
  }
  t.match(await app.request('POST', `/api/domains/${domain.id}/verify`), { body: { status: 'verified' } })
  await expect('backups', false, /^Run npx jetpost backup <folder> every night\. There is no backup yet\.$/)
  await expect('bounce domain', false, /^JETPOST_BOUNCE_DOMAIN bounces\.example has no SPF record: publish one /)
  dns.txt('bounces.example', 'v=spf1 a:mail.example -all')
  const backup = await jetpostHere(['backup', join(folder, 'one')], env)
  t.equal(backup.code, 0, backup.err)

  t.strictSame((await examine()).filter(({ ok }) => !ok), [], 'nothing is left to do')
  const inThreeDays = await examine({}, authority.ca, Date.now() + 3 * 86_400_000)
  const [old, ...others] = inThreeDays.filter(({ ok }) => !ok)
  t.match(old, { name: 'backups', says: /^Run npx jetpost backup <folder> .* The last backup is of 2.*Z\.$/ })
  t.strictSame(others, [])
  await expect('public URL', false, /^Set JETPOST_PUBLIC_URL /, { JETPOST_PUBLIC_URL: 'http://localhost:8080' })
  await expect('public URL', false, /something else answers there \(404\)\.$/, {
    JETPOST_PUBLIC_URL: `https://mail.example:${port}/elsewhere`
  })
  await expect('proxy and TLS', false, /set JETPOST_TRUST_PROXY to the proxy's address\.$/, { JETPOST_TRUST_PROXY: '' })
  await expect('proxy and TLS', false, /must answer with a valid certificate\.$/, {}, createAuthority().ca)
  await expect('mail out', false, /^Set SMTP_URL to your relay/, { SMTP_URL: '' })
  await expect('mail out', false, /ECONNREFUSED/, { SMTP_URL: 'smtp://127.0.0.1:1' })
  dns.ptr('1.0.0.127.in-addr.arpa', 'mail.example')
  const direct = { SMTP_URL: 'direct:', JETPOST_HOSTNAME: 'mail.example', JETPOST_REQUIRE_VERIFIED_DOMAINS: 'false' }
  await expect('mail out', true, /whose PTR is mail\.example$/, direct)
  await app.request('POST', '/api/domains', { body: { name: 'unverified.example' } })
  await expect('mail out', false, /^1 domain sends without being verified\. /, direct)
  await expect('bounce domain', false, /^Set JETPOST_INBOUND_PORT: without,/, { JETPOST_INBOUND_PORT: '' })
  await expect('bounce domain', false, /has no MX record/, { JETPOST_BOUNCE_DOMAIN: 'none.example' })
  await expect('alerts', false, /^Set JETPOST_ALERT_TO /, { JETPOST_ALERT_TO: '', JETPOST_ALERT_FROM: '' })
  // In a process of its own: a connection that is given up may still be trying.
  const away = await jetpost(['doctor', '--production', '--json'], { ...env, NATS_URL: 'nats://127.0.0.1:9' })
  t.match(JSON.parse(away.out)[3], { name: 'domain', ok: false, says: /^NATS cannot be reached: / }, away.err)

  const short = createAuthority()
  const soon = await openProxy(t, short.certify('mail.example'), () => app.url)
  await expect(
    'proxy and TLS',
    false,
    /^The certificate ends \d{4}-\d\d-\d\d: it must be renewed\.$/,
    { JETPOST_PUBLIC_URL: `https://mail.example:${soon}` },
    short.ca
  )
})
