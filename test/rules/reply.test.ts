import t from 'tap'
import { parseTarget } from '#src/workers/sender/target.ts'
import { parseReply, verdictOf } from '#src/feedback/reply.ts'
import type { SmtpStage } from '#streams/email/decide.ts'

t.test('what is a reply', async t => {
  t.same(parseReply('250-2.1.5 first\n250 2.1.5 last'), {
    code: 250,
    enhanced: '2.1.5',
    text: '250-2.1.5 first\n250 2.1.5 last'
  })
  t.same(parseReply('550'), { code: 550, enhanced: null, text: '550' })
  t.equal(parseReply('250 5.1.1 contradiction')!.enhanced, null)
  t.equal(parseReply('450 \0\x1b[31mred 4.0.0')!.text, '450 [31mred 4.0.0')
  t.equal(parseReply(`450 ${'x'.repeat(994)}\u{1F600}`)!.text.isWellFormed(), true)
  for (const garbage of ['', 'hello', '2 what?', '2500 ok', '354 go on', '999 x', '25', 'HTTP/1.1 400 Bad Request']) {
    t.equal(parseReply(garbage), null, garbage)
  }
})

const VERDICTS: Array<[string, SmtpStage, string, string, boolean]> = [
  ['250 ok', 'data', 'delivered', 'delivered', false],
  ['550 5.1.1 <gone@example.net>: Recipient address rejected: User unknown', 'rcpt', 'bounced', 'userunknown', true],
  ['550 5.1.1 mailbox unavailable', 'rcpt', 'bounced', 'userunknown', true],
  ['550 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org', 'rcpt', 'bounced', 'blocked', false],
  ['550 denied', 'rcpt', 'bounced', 'undefined', false],
  ['552 5.2.2 The email account that you tried to reach is over quota', 'rcpt', 'bounced', 'mailboxfull', false],
  ['554 5.7.1 Spam message rejected', 'data', 'bounced', 'spamdetected', false],
  ['450 4.2.0 greylisted, try again later', 'rcpt', 'deferred', 'speeding', false],
  ['550 5.1.10 null MX', 'rcpt', 'bounced', 'notaccept', true],
  ['450 4.1.1 unverified user unknown', 'rcpt', 'deferred', 'userunknown', false]
]

t.test('the first digit says whether again, the class says why, and whether to suppress', async t => {
  for (const [text, stage, kind, why, suppress] of VERDICTS) {
    t.same(verdictOf(parseReply(text)!, stage), { kind, class: why, suppress, hostTrouble: false }, text)
  }
})

t.test('what the host says about itself or us is no verdict on the message', async t => {
  const said = [['421 4.3.2 closing', 'rcpt'], ['554 no service here', 'connect'], ['535 5.7.8 bad password', 'ehlo'], [
    '530 5.7.0 log in',
    'mail'
  ]] as const
  for (const [text, stage] of said) {
    t.match(verdictOf(parseReply(text)!, stage), { kind: 'deferred', suppress: false, hostTrouble: true }, text)
  }
})

t.test('SMTP_URL', async t => {
  t.same(parseTarget('smtp://127.0.0.1:2525'), {
    host: '127.0.0.1',
    port: 2525,
    secure: false,
    tls: 'opportunistic',
    verify: false,
    auth: null,
    via: 'relay',
    address: null,
    source: null
  })
  t.match(parseTarget('smtp://me%40x:p%2Fw@mail.example.com'), {
    port: 587,
    tls: 'required',
    verify: true,
    auth: { user: 'me@x', pass: 'p/w' }
  })
  t.match(
    parseTarget('smtp://u:p@h?tls=opportunistic'),
    { tls: 'opportunistic', verify: true },
    'a password in plain only when it is asked for'
  )
  t.match(parseTarget('smtps://mail.example.com'), { port: 465, secure: true, tls: 'required', verify: true })
  t.match(parseTarget('smtp://u:p@[::1]:25?tls=unverified'), { host: '::1', tls: 'unverified', verify: false })
  t.throws(() => parseTarget('smtp://u:secret@h?tsl=off'), { message: /^(?!.*secret).*tsl/ })
  t.throws(() => parseTarget('http://h'), /SMTP_URL must look like/)
})
