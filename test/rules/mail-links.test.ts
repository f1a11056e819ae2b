import t from 'tap'
import { readConfig } from '#src/base/config.ts'
import { linkUrlOf, mailWarnings, type SendingDomain } from '#src/base/mail-links.ts'

const RELAY = 'smtp://relay.example'
const VERIFIED = [{ status: 'verified', spf: null }]
const LOOPBACK = ['http://localhost:80', 'http://127.1.2.3', 'http://[::1]:8080', 'http://jetpost.localhost']
const NOWHERE = ['http://0.0.0.0:8080', 'http://[::]:8080', 'http://0']
const spf = (state: string, name = 'bounces.example') => ({ status: 'verified', spf: { name, state } })

function whatOf (env: Record<string, string>, domains: SendingDomain[] | null = VERIFIED): string {
  return mailWarnings(readConfig(env), domains).map(({ what }) => what).join(' ')
}

t.test('mail that leaves has links only where others than this machine can follow them', async t => {
  const linkUrl = (env: Record<string, string>) => linkUrlOf(readConfig(env))
  t.equal(linkUrl({}), 'http://localhost:8080', 'the mail catcher stays')
  for (const PORT of ['', '99']) t.equal(linkUrl({ SMTP_URL: RELAY, PORT }), null)
  for (const url of [...LOOPBACK, ...NOWHERE]) {
    t.equal(linkUrl({ SMTP_URL: 'direct:', JETPOST_PUBLIC_URL: url }), null, url)
  }
  t.equal(linkUrl({ SMTP_URL: RELAY, JETPOST_PUBLIC_URL: 'https://post.example/' }), 'https://post.example')
  t.equal(linkUrl({ SMTP_URL: RELAY, JETPOST_TRACKING_URL: 'https://t.example' }), 'https://t.example')
})

t.test('an operator is told what harms his mail', async t => {
  const https = { JETPOST_PUBLIC_URL: 'https://post.example' }
  t.equal(whatOf({}), '', 'nothing leaves')
  t.equal(whatOf({ SMTP_URL: RELAY, ...https }), '')
  t.match(whatOf({ SMTP_URL: RELAY }), /^Mail goes out without tracking and without unsubscribe links$/)
  t.match(whatOf({ SMTP_URL: RELAY, JETPOST_PUBLIC_URL: 'http://post.example' }), /^Unsubscribe links are http$/)
  const direct = { SMTP_URL: 'direct:', ...https }
  t.equal(whatOf(direct), '', 'all are verified')
  t.equal(whatOf(direct, [...VERIFIED, { status: 'pending', spf: null }]), '1 domain sends without being verified')
  t.equal(whatOf(direct, null), 'Domains send without being verified')
  t.equal(whatOf({ ...direct, JETPOST_REQUIRE_VERIFIED_DOMAINS: 'true' }, null), '')
  t.equal(whatOf({ SMTP_URL: RELAY, ...https }, [{ status: 'pending', spf: null }]), '', 'a relay may sign')
  t.equal(whatOf(direct, [spf('ok'), spf('ok')]), '')
  const wrong = [spf('missing'), spf('missing'), spf('ok', 'shop.example')]
  t.equal(whatOf(direct, wrong), 'SPF is missing or wrong at bounces.example', 'once for all that share it')
  t.equal(whatOf(direct, [...wrong, spf('wrong', 'a.example')]), 'SPF is missing or wrong at 2 names')
  t.equal(whatOf({ SMTP_URL: RELAY, ...https }, wrong), '', 'a relay has a record of its own')
})
