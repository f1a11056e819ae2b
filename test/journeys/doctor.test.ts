import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readConfig } from '#src/base/config.ts'
import { examineIssuer, examineTargets } from '#src/cli/doctor.ts'
import { examineMail } from '#src/cli/doctor-mail.ts'
import { createAuthority } from '../support/certificates.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { jetpost } from '../support/jetpost.ts'
import { startOidcIssuer } from '../support/oidc-issuer.ts'
import { openRelay } from '../support/relay.ts'
import { startSink } from '../support/smtp-sink.ts'

const dns = await openDnsServer(t)
const folder = mkdtempSync(join(tmpdir(), 'jetpost-doctor-'))
t.teardown(() => rmSync(folder, { recursive: true }))
const authority = createAuthority()

/** Cases side by side: settings, what one check finds, and in which words. */
async function expect (
  t: Test,
  name: 'smtp' | 'links' | 'spf' | 'inbound' | 'submission',
  cases: Array<[Record<string, string>, boolean | null, RegExp]>
): Promise<void> {
  await Promise.all(cases.map(async ([settings, ok, says]) => {
    const checks = await examineMail(readConfig({ JETPOST_DNS: dns.address, ...settings }))
    t.match(checks.find(check => check.name === name), { ok, says }, JSON.stringify(settings))
  }))
}

t.test('without any settings mail goes to the catcher, and nothing comes back', async t => {
  const { code, out } = await jetpost(['doctor', '--all'], { JETPOST_DATA_DIR: folder })
  t.equal(code, 0)
  t.match(out, /^smtp +ok +mail goes to the mail catcher$/m)
  t.match(out, /^inbound +ok +off: /m)
})

t.test('webhooks to private addresses are warned of where the public URL is public', async t => {
  const targets = (env: Record<string, string>) => examineTargets(readConfig(env))
  const [allowed, isPublic] = [{ JETPOST_WEBHOOK_ALLOW_PRIVATE: 'true' }, {
    JETPOST_PUBLIC_URL: 'https://mail.example'
  }]
  t.match(targets(isPublic), { ok: true, says: 'to public addresses, by https' })
  t.match(targets(allowed), { ok: true, says: 'to private addresses, too' })
  t.match(targets({ ...allowed, ...isPublic }), {
    ok: null,
    says: /^unset JETPOST_WEBHOOK_ALLOW_PRIVATE, as https:\/\/mail\.example is public: /
  })
})

t.test('the issuer of sign-in is asked who it is', async t => {
  const issuer = await startOidcIssuer(t, 'http://localhost:8080/dashboard/oidc/callback')
  const look = (url: string) =>
    examineIssuer(readConfig({ JETPOST_OIDC_ISSUER: url, JETPOST_OIDC_CLIENT_ID: issuer.clientId }))
  t.strictSame(await examineIssuer(readConfig({})), [], 'there is none')
  t.match(await look(issuer.url), [{ name: 'sign-in', ok: true, says: `${issuer.url} answers` }])
  t.match(await look(`${issuer.url}/realms/other`), [{ ok: false, says: /: nobody can sign in there: ./ }])
  t.match(await look('http://localhost:9'), [{ ok: false, says: /^http:\/\/localhost:9: nobody can sign in there: ./ }])
})

t.test('a relay is asked as the sender would ask it', async t => {
  const sink = await startSink()
  t.teardown(() => sink.stop())
  const open = await openRelay(t)
  const guarded = await openRelay(t, authority.certify('127.0.0.1'))
  await expect(t, 'smtp', [
    [{ SMTP_URL: sink.url }, true, new RegExp(`^127\\.0\\.0\\.1:${sink.port} answers, without TLS$`)],
    [{ SMTP_URL: open.url('u', 'hunter2', '?tls=off') }, true, /answers, without TLS, logged in$/],
    [{ SMTP_URL: guarded.url('u', 'hunter2', '?tls=unverified') }, true, /answers, TLSv1\.3, not verified, logged in$/],
    [{ SMTP_URL: guarded.url('u', 'hunter2') }, false, /^127\.0\.0\.1: .*certificate/],
    [{ SMTP_URL: open.url('u', 'hunter2') }, false, /gives no TLS, which is required/],
    [{ SMTP_URL: open.url('u', 'wrong-word', '?tls=off') }, false, /^127\.0\.0\.1: .*535 /],
    [{ SMTP_URL: 'smtp://u:hunter2@127.0.0.1:1' }, false, /ECONNREFUSED/],
    [{ SMTP_URL: 'smtp://u:hunter2@127.0.0.1:2525?tls=maybe' }, false, /^SMTP_URL: tls is one of/]
  ])
  t.same([...open.logins].sort(), ['u:hunter2', 'u:wrong-word'], 'no password without the TLS it asks for')
  t.same(guarded.logins, ['u:hunter2'], 'none to a server with a bad certificate')
  t.same(sink.received, [], 'no mail is sent for it')
})

t.test('what is wrong with a relay is said without its password, and ends with 1', async t => {
  await Promise.all(
    ['smtp://u:hunter2@127.0.0.1:1', 'smtps://u:hunter2@[::1]:1', 'smtp://u:hunter2@127.0.0.1:1?tls=x'].map(
      async url => {
        const { code, out, err } = await jetpost(['doctor', '--json'], { JETPOST_DATA_DIR: folder, SMTP_URL: url })
        t.equal(code, 1)
        t.match(JSON.parse(out).checks, [
          { name: 'node' },
          { name: 'nats' },
          { name: 'postgres' },
          {
            name: 'smtp',
            ok: false
          },
          {
            name: 'links',
            ok: null,
            says: /^Mail goes out without tracking and without unsubscribe links\. .* JETPOST_PUBLIC_URL /
          },
          { name: 'spf', ok: true },
          { name: 'inbound', ok: true }
        ])
        t.notMatch(out + err, 'hunter2')
      }
    )
  )
})

t.test('a relay that does not greet is given up', async t => {
  const mute = createServer(() => {}).listen(0, '127.0.0.1')
  await once(mute, 'listening')
  t.teardown(() => mute.close())
  await expect(t, 'smtp', [[
    { SMTP_URL: `smtp://127.0.0.1:${(mute.address() as AddressInfo).port}` },
    false,
    /^127\.0\.0\.1: Greeting never received/
  ]])
})

t.test('direct mode: the name has addresses, and each leads back to it', async t => {
  dns.host('good.example', ['192.0.2.1', '2001:db8::1'])
  dns.ptr('1.2.0.192.in-addr.arpa', 'other.example', 'Good.Example')
  dns.ptr('1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa', 'good.example')
  dns.host('half.example', ['192.0.2.2', '2001:db8::2'])
  dns.ptr('2.2.0.192.in-addr.arpa', 'half.example')
  dns.host('other.example', ['192.0.2.1'])
  dns.host('mute.example', ['192.0.2.3'])
  dns.fails('3.2.0.192.in-addr.arpa', 'SERVFAIL')
  dns.host('bare.example', [])
  dns.fails('lost.example', 'SERVFAIL')
  const direct = (name: string) => ({ SMTP_URL: 'direct:', JETPOST_HOSTNAME: name })
  await expect(t, 'smtp', [
    [direct('good.example'), true, /good\.example is 192\.0\.2\.1, whose PTR is good\.example; .*2001:db8::1/],
    [direct('half.example'), false, /^JETPOST_HOSTNAME half\.example is 2001:db8::2, whose PTR is missing$/],
    [direct('bounces.good.example'), false, /^JETPOST_HOSTNAME bounces\.good\.example has no address$/],
    [direct('bare.example'), false, /has no address$/],
    [direct('mute.example'), null, /^the PTR of 192\.0\.2\.3 is unknown: DNS does not say/],
    [direct('lost.example'), null, /^the address of JETPOST_HOSTNAME lost\.example is unknown: DNS does not say/],
    [{ SMTP_URL: 'direct:' }, false, /^JETPOST_HOSTNAME is unset/]
  ])
  await expect(t, 'inbound', [[
    { SMTP_URL: 'direct:', JETPOST_HOSTNAME: 'good.example' },
    null,
    /^JETPOST_INBOUND_PORT and JETPOST_BOUNCE_DOMAIN are unset/
  ]])
})

t.test('direct mode: a PTR that names another host is shown', async t => {
  dns.host('mail.example', ['192.0.2.9'])
  dns.ptr('9.2.0.192.in-addr.arpa', 'host9.provider.example')
  await expect(t, 'smtp', [[
    { SMTP_URL: 'direct:', JETPOST_HOSTNAME: 'mail.example' },
    false,
    /^JETPOST_HOSTNAME mail\.example is 192\.0\.2\.9, whose PTR is host9\.provider\.example$/
  ]])
})

t.test('links by http, domains that nobody has verified, and the SPF of the return path are looked at', async t => {
  const url = (scheme: string) => ({ JETPOST_PUBLIC_URL: `${scheme}://post.example` })
  const relay = { SMTP_URL: 'smtp://127.0.0.1:1' }
  const direct = { SMTP_URL: 'direct:', ...url('https') }
  await expect(t, 'links', [
    [{ ...relay, ...url('https') }, true, /^https:\/\/post\.example$/],
    [{ ...relay, ...url('http') }, null, /^Unsubscribe links are http\. .* to an https URL\.$/],
    [{ ...direct, JETPOST_REQUIRE_VERIFIED_DOMAINS: 'true' }, true, /^https:\/\/post\.example$/],
    [direct, null, /^Domains send without being verified\. /]
  ])
  dns.txt('one.example', 'another=1', 'v=spf1 a:mail.example -all')
  dns.txt('two.example', 'v=spf1 -all', 'v=spf1 mx -all')
  dns.mx('no-spf.example', [10, 'mail.example'])
  dns.fails('lost-spf.example', 'SERVFAIL')
  const from = (JETPOST_BOUNCE_DOMAIN: string) => ({ ...relay, JETPOST_BOUNCE_DOMAIN })
  await expect(t, 'spf', [
    [{ JETPOST_BOUNCE_DOMAIN: 'no-spf.example' }, true, /^for the mail catcher$/],
    [relay, true, /^JETPOST_BOUNCE_DOMAIN is unset: /],
    [from('one.example'), true, /^one\.example has v=spf1 a:mail\.example -all$/],
    [{ ...from('one.example'), SMTP_URL: 'direct:' }, true, /^one\.example has /],
    [from('two.example'), false, /^JETPOST_BOUNCE_DOMAIN two\.example must have one SPF record only: /],
    [from('no-spf.example'), false, /^JETPOST_BOUNCE_DOMAIN no-spf\.example has no SPF record: publish one /],
    [from('lost-spf.example'), null, /^the SPF record of JETPOST_BOUNCE_DOMAIN lost-spf\.example is unknown: DNS /]
  ])
})

t.test('where clients of SMTP come in, and what they may do without TLS', async t => {
  await expect(t, 'submission', [
    [{}, true, /^SMTP for clients on port 2525 with STARTTLS; a self-signed certificate$/],
    [
      { JETPOST_SUBMISSION_PORT: '587', JETPOST_SUBMISSION_TLS_PORT: '465' },
      true,
      /^SMTP for clients on port 587 with STARTTLS and port 465 with TLS; /
    ],
    [{ JETPOST_ROLES: 'sender' }, true, /^off: /],
    [{ JETPOST_TLS_CERT: 'none.pem' }, false, /go together/],
    [
      { JETPOST_SUBMISSION_PLAIN_NETWORKS: '10.0.0.0/8' },
      null,
      /10\.0\.0\.0\/8 may log in without TLS: their traffic shows the API key$/
    ]
  ])
})

t.test('what comes back needs a certificate that is one, a bounce domain and its MX', async t => {
  dns.mx('bounces.example', [10, 'mail.example'])
  dns.mx('none.example')
  dns.mx('null.example', [0, ''])
  dns.fails('lost-mx.example', 'SERVFAIL')
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const mine = authority.certify('mail.example')
  const cert = file('cert.pem', mine.cert)
  const key = file('key.pem', mine.key)
  const foreign = file('foreign.pem', authority.certify('mail.example').key)
  const listens = { JETPOST_INBOUND_PORT: '2525', JETPOST_BOUNCE_DOMAIN: 'bounces.example' }
  await expect(t, 'inbound', [
    [listens, true, /^a self-signed certificate; bounces come to bounces\.example, whose MX is mail\.example$/],
    [
      { ...listens, JETPOST_TLS_CERT: cert, JETPOST_TLS_KEY: key },
      true,
      /^the certificate of .*cert\.pem; bounces come to /
    ],
    [
      { ...listens, JETPOST_TLS_CERT: cert, JETPOST_TLS_KEY: foreign },
      false,
      /^JETPOST_TLS_CERT and JETPOST_TLS_KEY are not a certificate and its key/
    ],
    [{ ...listens, JETPOST_TLS_CERT: cert }, false, /go together/],
    [
      { ...listens, JETPOST_TLS_CERT: join(folder, 'none.pem'), JETPOST_TLS_KEY: key },
      false,
      /^JETPOST_TLS_CERT .*none\.pem cannot be read: ENOENT/
    ],
    [
      { JETPOST_BOUNCE_DOMAIN: 'bounces.example' },
      true,
      /^bounces come to bounces\.example, whose MX is mail\.example$/
    ],
    [{ JETPOST_INBOUND_PORT: '2525' }, false, /^JETPOST_INBOUND_PORT is 2525 and JETPOST_BOUNCE_DOMAIN is unset/],
    [
      { ...listens, JETPOST_BOUNCE_DOMAIN: 'none.example' },
      false,
      /^JETPOST_BOUNCE_DOMAIN none\.example has no MX record/
    ],
    [{ ...listens, JETPOST_BOUNCE_DOMAIN: 'null.example' }, false, /has no MX record that leads to a host$/],
    [{ ...listens, JETPOST_BOUNCE_DOMAIN: 'nowhere.example' }, false, /has no MX record that leads to a host$/],
    [
      { ...listens, JETPOST_BOUNCE_DOMAIN: 'lost-mx.example' },
      null,
      /^the MX of JETPOST_BOUNCE_DOMAIN lost-mx\.example is unknown: DNS does not say/
    ],
    [
      { ...listens, JETPOST_BOUNCE_DOMAIN: 'lost-mx.example', JETPOST_TLS_CERT: cert },
      false,
      /go together.*; the MX of /
    ]
  ])
})
