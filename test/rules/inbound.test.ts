import t from 'tap'
import { newId } from '#src/base/id.ts'
import { createTokens, type Pointer } from '#src/content/token.ts'
import type { BounceReport, ReportedRecipient } from '#src/feedback/report.ts'
import { networkOf } from '#src/base/network.ts'
import { createAllowance, ReceiveSlots } from '#src/base/allowance.ts'
import { decideRecipient, tokenIn } from '#src/servers/inbound-smtp/recipient.ts'
import { namedRecipients, effectOf } from '#src/workers/inbound/effect.ts'

const tokens = createTokens('a-secret-for-tests-with-at-least-32-characters')
const others = createTokens('another-secret-with-at-least-32-characters!!')
const pointer = (n = 0): Pointer => ({ email: newId('em', 1_800_000_000_000), n, request: 7 })
const one = pointer()
const [bounce, leave] = [tokens.mint('return', one), tokens.mint('unsubscribe', one)]
const NO_EVIDENCE: BounceReport['evidence'] = {
  messageIds: [],
  returnPaths: [],
  envelopeIds: [],
  unsubscribeUrls: [],
  feedbackIds: [],
  deliveredTo: []
}

t.test('only holders of our tokens and the mailboxes every host has may be written to', async t => {
  const isOurs = (host: string) => host === 'bounces.example' || host === 'jp-bounces.xn--bcher-kva.example'
  const cases: Array<[string, string, unknown]> = [
    ['a return path', `b+${bounce}@bounces.example`, 'token'],
    ['an unsubscribe address', `u+${leave}@bounces.example`, 'token'],
    ['in capitals, as servers on the way may write it', `B+${bounce}@BOUNCES.example`.toUpperCase(), 'token'],
    ['at a host of a domain beyond ASCII', `b+${bounce}@jp-bounces.bücher.example`, 'token'],
    ['a token for something else', `b+${leave}@bounces.example`, { code: 550 }],
    ['the same the other way round', `u+${bounce}@bounces.example`, { code: 550 }],
    ["a token of somebody else's", `b+${others.mint('return', one)}@bounces.example`, { code: 550, text: /^5\.1\.1/ }],
    ['a garbled token', `b+${bounce.slice(1)}@bounces.example`, { code: 550, text: /^5\.1\.1/ }],
    ['no token', 'b+@bounces.example', { code: 550 }],
    ['another name', 'ada@bounces.example', { code: 550, text: /^5\.1\.1/ }],
    ['postmaster', 'Postmaster@bounces.example', 'role'],
    ['postmaster without a host', 'postmaster', 'role'],
    ['abuse', 'abuse@bounces.example', 'role'],
    ['complaints', 'fbl@bounces.example', 'role'],
    ['another host', 'ada@example.org', { code: 550, text: /^5\.7\.1/ }],
    ['our token at another host', `b+${bounce}@example.org`, { code: 550, text: /^5\.7\.1/ }],
    ['a host within ours', `b+${bounce}@evil.bounces.example`, { code: 550, text: /^5\.7\.1/ }],
    ['a percent hack', 'ada%example.org@bounces.example', { code: 550 }],
    ['a second @', `b+${bounce}@bounces.example@example.org`, { code: 550, text: /^5\.7\.1/ }],
    ['abuse elsewhere', 'abuse@example.org', { code: 550, text: /^5\.7\.1/ }],
    ['no host', 'ada', { code: 550 }]
  ]
  for (const [name, address, wanted] of cases) t.match(decideRecipient(address, tokens, isOurs), wanted, name)
})

t.test('an allowance is counted by name, ends with its window, and remembers a bounded number of names', async t => {
  let nowMs = 0
  const allowance = createAllowance({ max: 2, windowMs: 1000, namesMax: 2, nowMs: () => nowMs })
  t.same([1, 2, 3].map(() => allowance.take('a')), [true, true, false])
  t.ok(allowance.take('b'), 'another name has its own')
  nowMs = 1000
  t.ok(allowance.take('a'), 'a new window')
  nowMs = 1500
  t.ok(allowance.take('c'))
  t.same([1, 2].map(() => allowance.take('a')), [true, false], "the oldest window was b's, and made room")
  t.same(['a', 'b', 'c'].map(allowance.has), [false, true, true], 'and asking takes nothing')
  nowMs = 2000
  t.ok(allowance.has('a'))
})

t.test('no network gets all slots for mails on their way in, and fewer when half are taken', async t => {
  let nowMs = 0
  const slots = new ReceiveSlots({
    max: 8,
    maxPerNetwork: 3,
    maxPerNetworkBusy: 1,
    timeoutMs: 1000,
    nowMs: () => nowMs
  })
  const take = (names: string) => [...names].map(name => slots.acquire(`${name}${Math.random()}`, name))
  t.same(take('aaaa'), ['acquired', 'acquired', 'acquired', 'network_busy'])
  t.same(take('bbcdec'), ['acquired', 'network_busy', 'acquired', 'acquired', 'acquired', 'network_busy'])
  t.same([slots.acquire('last', 'f'), slots.acquire('one more', 'g')], ['acquired', 'busy'])
  slots.received('last')
  slots.release('last')
  t.equal(slots.acquire('one more', 'g'), 'acquired')
  t.ok(slots.has('one more'))
  nowMs = 1001
  t.ok(slots.isLate('one more'))
  slots.received('one more')
  t.notOk(slots.isLate('one more'), 'it is in')
  t.notOk(slots.isLate('last'), 'it has gone')
})

t.test('mail to a token is counted by the token, whatever the host and the case of letters', async t => {
  t.equal(tokenIn(`B+${bounce.toUpperCase()}@a.example`), tokenIn(`b+${bounce}@b.example`))
  t.not(tokenIn(`b+${bounce}@a.example`), tokenIn(`u+${leave}@a.example`))
  t.equal(tokenIn('postmaster@a.example'), null)
})

t.test('a network is an address, or 48 bits of an IPv6 address, which is what one customer gets', async t => {
  t.equal(networkOf('192.0.2.7'), '192.0.2.7')
  t.equal(networkOf('2001:db8:1:2:3:4:5:6'), '2001:db8:1')
  t.equal(networkOf('2001:DB8:1:2::9'), networkOf('2001:db8:0001:ffff:aaaa::1'))
  t.not(networkOf('2001:db8:1::9'), networkOf('2001:db8:2::9'))
  t.equal(networkOf('::1'), '0:0:0')
  t.equal(networkOf('2001:db8::1'), '2001:db8:0')
  t.equal(networkOf('::FFFF:192.0.2.7'), '192.0.2.7', 'as a socket for both families writes it')
})

t.test('whom a mail is about: the address it came to before anything in it', async t => {
  const evidence = { ...NO_EVIDENCE, feedbackIds: [tokens.mint('return', pointer(1))] }
  t.same(namedRecipients([`B+${bounce.toUpperCase()}@h.example`], evidence, tokens), [{
    pointer: one,
    unsubscribes: false
  }])
  t.same(namedRecipients([`u+${leave}@h.example`], evidence, tokens), [{ pointer: one, unsubscribes: true }])
  t.same(
    namedRecipients([`b+${bounce}@h.example`, `b+${bounce}@other.example`], NO_EVIDENCE, tokens).length,
    1,
    'once, however often it is named'
  )
})

t.test('whom a mail is about: our tokens in what it returns, and nothing else in it', async t => {
  const cases: Array<[string, Partial<BounceReport['evidence']>, boolean]> = [
    ['a return path', { returnPaths: [`b+${bounce}@bounces.example`] }, true],
    ['in brackets', { returnPaths: [`<B+${bounce.toUpperCase()}@bounces.example>`] }, true],
    ['a feedback id, among others', { feedbackIds: ['key_1:jetpost', bounce] }, true],
    ['an envelope id', { envelopeIds: [bounce] }, true],
    ['an unsubscribe link', { unsubscribeUrls: [`https://mail.example/u/${leave}`] }, true],
    ['an unsubscribe address', { unsubscribeUrls: [`mailto:u+${leave}@bounces.example?subject=unsubscribe`] }, true],
    ['a Message-ID of ours', { messageIds: [`${one.email}.0@example.com`] }, false],
    ['an address', { deliveredTo: [`b+${bounce}@bounces.example`] }, false],
    ["somebody else's token", {
      returnPaths: [`b+${others.mint('return', one)}@h.example`],
      feedbackIds: [others.mint('return', one)]
    }, false],
    ['an unsubscribe token as a return path', { returnPaths: [`b+${leave}@h.example`], feedbackIds: [leave] }, false],
    ['a longer word around it', { feedbackIds: [`${bounce}0`, `0${bounce}`] }, false],
    ['behind more than anybody returns', { feedbackIds: [...Array<string>(50).fill('x'), bounce] }, false]
  ]
  for (const [name, evidence, found] of cases) {
    t.same(
      namedRecipients(['fbl@bounces.example'], { ...NO_EVIDENCE, ...evidence }, tokens),
      found ? [{ pointer: one, unsubscribes: false }] : [],
      name
    )
  }
})

const blame = (given: Partial<ReportedRecipient> = {}): ReportedRecipient => ({
  address: 'ada@example.com',
  kind: 'hard',
  action: 'failed',
  status: '5.1.1',
  reason: 'userunknown',
  code: 550,
  diagnostic: '550 5.1.1 no such user',
  remoteMta: 'mx.example.net',
  ...given
})
const SILENT = {
  address: null,
  kind: 'soft',
  status: null,
  code: null,
  reason: 'undefined',
  diagnostic: 'Subject of the mail'
} as const
const reported = (given: Partial<BounceReport> = {}): BounceReport => ({
  kind: 'hard',
  recipients: [blame()],
  feedbackType: null,
  evidence: NO_EVIDENCE,
  subject: null,
  from: null,
  autoSubmitted: false,
  ...given
})
const follows = (report: Partial<BounceReport>, unsubscribes = false) =>
  effectOf({ inbound: 'in_1', report: reported(report), unsubscribes, address: 'ada@example.com' })

t.test('a final no is recorded as it was said', async t => {
  t.strictSame(follows({}), {
    report: {
      name: 'RecordReport',
      report: 'in_1',
      host: 'mx.example.net',
      reply: { code: 550, enhanced: '5.1.1', text: '550 5.1.1 no such user' },
      status: '5.1.1',
      error: null,
      class: 'userunknown'
    }
  })
  t.match(follows({ recipients: [blame({ diagnostic: 'smtp; 552-5.2.2 full' })] }), {
    report: { reply: { code: 552 } }
  }, 'the type of a diagnostic is no part of it')
  t.match(follows({ recipients: [blame({ diagnostic: 'X-Notes; no such user' })] }), {
    report: { reply: null, error: 'no such user' }
  }, 'words that are no reply')
  t.match(
    follows({ recipients: [blame({ diagnostic: '250 ok' })] }),
    { report: { reply: null, error: '250 ok' } },
    'a yes is not the reply to a no'
  )
  t.match(follows({ recipients: [blame({ diagnostic: null, status: 'none', remoteMta: null })] }), {
    report: { reply: null, error: null, status: null, host: null, class: 'userunknown' }
  })
  t.match(follows({ recipients: [blame({ action: null, kind: 'soft', reason: 'mailboxfull' })], kind: 'soft' }), {
    report: { class: 'mailboxfull' }
  }, 'a bounce without a status part')
  t.match(follows({ recipients: [blame({ ...SILENT, address: 'ada@example.com' })] }), {
    report: { class: 'undefined' }
  }, 'no reason, but a name')
  t.match(
    follows({ recipients: [blame({ diagnostic: `\u0000${'x'.repeat(5000)}\ud800`, remoteMta: 'y'.repeat(5000) })] }),
    { report: { error: /^x{999,1000}$/, host: /^y{255}$/ } }
  )
})

t.test('what is no final no is no bounce', async t => {
  for (const action of ['delayed', 'delivered', 'relayed', 'expanded'] as const) {
    t.equal(follows({ kind: 'soft', recipients: [blame({ action, kind: 'soft' })] }), null, action)
  }
  for (const kind of ['delivered', 'auto-reply', 'none'] as const) {
    t.equal(follows({ kind, recipients: [blame({ kind, action: null })] }), null, kind)
  }
  t.equal(follows({ recipients: [blame(SILENT)] }), null, 'one that says neither who nor why')
  t.equal(follows({ recipients: [] }), null)
  t.equal(follows({}, true), null, 'nor is one that came to the unsubscribe address')
})

t.test('of several recipients the addressed one counts, else the gravest', async t => {
  const [soft, hard] = [
    blame({ address: 'Ada@Example.com', kind: 'soft', reason: 'mailboxfull' }),
    blame({ address: 'eve@example.com' })
  ]
  t.match(follows({ recipients: [hard, soft] }), { report: { class: 'mailboxfull' } }, 'whose address it is')
  t.match(follows({ recipients: [blame({ address: 'x@example.com', kind: 'soft', reason: 'mailboxfull' }), hard] }), {
    report: { class: 'userunknown' }
  }, 'the gravest')
  t.match(follows({ recipients: [blame({ address: null })] }), { report: { class: 'userunknown' } }, 'withheld')
  t.equal(
    follows({ recipients: [blame({ action: 'relayed', kind: 'delivered' }), hard] }),
    null,
    'an alias took it; what became of its members is theirs'
  )
})

t.test('that somebody of another domain is gone is a bounce, but does not say that our recipient is', async t => {
  const of = (address: string | null, more: Partial<ReportedRecipient> = {}) =>
    follows({ recipients: [blame({ address, ...more })] })
  t.match(of('carol@gone.example'), {
    report: { class: 'undefined', status: '5.1.1', reply: { code: 550, text: '550 5.1.1 no such user' } }
  }, 'a member of an alias')
  t.match(
    of('carol@gone.example', { reason: 'spamdetected', kind: 'soft' }),
    { report: { class: 'spamdetected' } },
    'what is said of our mail is said of our mail'
  )
  for (
    const own of [
      'ada.l@EXAMPLE.com',
      'ada@mbox1.example.com',
      'ada@com.example.com',
      'ada',
      'ada@mbox1',
      'redacted@redacted.example',
      null
    ]
  ) t.match(of(own), { report: { class: 'userunknown' } }, String(own))
  for (const other of ['ada@notexample.com', 'ada@example.com.example', 'ada@example.co']) {
    t.match(of(other), { report: { class: 'undefined' } }, other)
  }
  t.match(
    effectOf({
      inbound: 'in_1',
      report: reported({ recipients: [blame({ address: 'ada@bücher.example' })] }),
      unsubscribes: false,
      address: 'a@mail.xn--bcher-kva.example'
    }),
    { report: { class: 'userunknown' } },
    'a domain above it, beyond ASCII'
  )
  t.match(
    follows({
      recipients: [
        blame({ address: 'carol@gone.example' }),
        blame({ address: 'ada@mbox1.example.com', kind: 'soft', reason: 'mailboxfull' })
      ]
    }),
    { report: { class: 'mailboxfull' } },
    'what may be about ours counts before what is not'
  )
})

t.test('complaints and unsubscribes are engagements; other feedback is none', async t => {
  t.match(follows({ kind: 'complaint', feedbackType: 'fraud' }), {
    engagement: { type: 'email.complained', data: { feedback: 'fraud', report: 'in_1' } }
  })
  t.match(follows({ kind: 'complaint', feedbackType: 'z'.repeat(500) }), {
    engagement: { data: { feedback: /^z{100}$/ } }
  })
  t.match(follows({ kind: 'unsubscribe', feedbackType: 'opt-out' }), {
    engagement: { type: 'email.unsubscribed', data: { by: 'report' } }
  })
  t.match(follows({ kind: 'unsubscribe' }, true), { engagement: { data: { by: 'mail' } } })
  t.match(follows({ kind: 'none' }, true), { engagement: { data: { by: 'mail' } } }, 'any letter to that address')
  t.match(
    follows({ kind: 'auto-reply', subject: 'unsubscribe' }, true),
    { engagement: { data: { by: 'mail' } } },
    'a mail program that says it is one'
  )
  t.equal(follows({ kind: 'auto-reply', subject: 'Out of office: unsubscribe' }, true), null)
  t.equal(follows({ kind: 'none', feedbackType: 'auth-failure' }, true), null)
  t.equal(follows({ kind: 'none', feedbackType: 'not-spam' }), null)
})
