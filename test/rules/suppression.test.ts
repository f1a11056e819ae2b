import fc from 'fast-check'
import t from 'tap'
import { parseAddress } from '#streams/address.ts'
import {
  foldAddress,
  heldBack,
  isSandbox,
  suppressible,
  withReason,
  suppressionOf,
  type SuppressionFact
} from '#streams/suppression/decide.ts'
import { REASONS, type StandingReason, type SuppressionReason } from '#streams/suppression/facts.ts'

const since = '2026-11-21T10:00:00.000Z'
const entry = (reason: SuppressionReason, email: string | null = null): StandingReason => ({ reason, email, since })
const entries = (...reasons: SuppressionReason[]): StandingReason[] => reasons.map(reason => entry(reason))

const envelope = { id: 'ev_1', version: 1, time: since, account: 'acc_1', causation: null, correlation: 'test' }
const added = (address: string | null, standing: StandingReason[]): SuppressionFact => ({
  ...envelope,
  type: 'suppression.added',
  data: { hash: '0'.repeat(64), address, reason: standing.at(-1)!.reason, standing }
})
const removed: SuppressionFact = {
  ...envelope,
  type: 'suppression.removed',
  data: { hash: '0'.repeat(64), address: 'Ada@example.com' }
}

t.test('addresses that differ in the case of letters alone are one, in the local part and in every script', async t => {
  for (
    const [one, other] of [['Ada@example.com', 'ADA@EXAMPLE.com'], ['ÅSA@bücher.example', 'åsa@BÜCHER.example'], [
      'ada+News@example.com',
      'ada+news@example.com'
    ]] as const
  ) {
    t.equal(foldAddress(parseAddress(one)!), foldAddress(parseAddress(other)!), one)
  }
  t.not(
    foldAddress('ada+a@example.com'),
    foldAddress('ada@example.com'),
    'a label is another address: it may be another mailbox'
  )
})

t.test('an address is one however its accents are written', async t => {
  const [composed, decomposed] = ['Ren\u00e9e@example.com', 'Rene\u0301e@example.com'] as const
  t.equal(parseAddress(decomposed), decomposed, 'what is given is kept')
  t.equal(foldAddress(parseAddress(composed)!), foldAddress(parseAddress(decomposed)!))
  for (let point = 0x80; point < 0x30000; point++) {
    const text = String.fromCodePoint(point)
    if (!text.isWellFormed()) continue
    const folded = foldAddress(text)
    const others = [text.normalize('NFC'), text.normalize('NFD'), text.toLowerCase(), folded].map(foldAddress)
    if (others.some(other => other !== folded)) t.fail(`U+${point.toString(16)}`)
  }
})

t.test('an address is normalised before it is suppressed', async t => {
  t.equal(suppressible('Ada@Bücher.example'), 'Ada@xn--bcher-kva.example')
  for (const text of ['', 'ada', 'Ada <ada@example.com>', 'a b@example.com', ' ada@example.com']) {
    t.match(suppressible(text), { code: 'invalid_address' }, JSON.stringify(text))
  }
})

t.test('addresses of the sandbox are never suppressed', async t => {
  for (const text of ['bounced@sandbox.jetpost.test', 'complained+7@SANDBOX.jetpost.test']) {
    t.match(suppressible(text), { code: 'sandbox_address' }, text)
  }
  t.ok(isSandbox('delivered@sandbox.jetpost.test'))
  for (const address of ['a@sub.sandbox.jetpost.test', 'sandbox.jetpost.test@example.com', 'a@jetpost.test']) {
    t.notOk(isSandbox(address), address)
    t.equal(suppressible(address), address)
  }
})

t.test('a reason joins those that stand, at their end', async t => {
  t.strictSame(withReason([], entry('bounce', 'em_1')), [entry('bounce', 'em_1')])
  t.strictSame(withReason(entries('unsubscribe'), entry('manual')), entries('unsubscribe', 'manual'))
})

t.test('a reason that stands already changes nothing: its first email and time stay', async t => {
  for (const reason of REASONS) {
    t.equal(withReason(entries('bounce', 'complaint', 'unsubscribe', 'manual'), entry(reason, 'em_2')), null, reason)
  }
})

t.test('a bounce, a complaint and a hand stop all mail; an unsubscribe only mail one can unsubscribe from', async t => {
  const table: Array<[SuppressionReason[], SuppressionReason | null, SuppressionReason | null]> = [
    [[], null, null],
    [['bounce'], 'bounce', 'bounce'],
    [['complaint'], 'complaint', 'complaint'],
    [['manual'], 'manual', 'manual'],
    [['unsubscribe'], 'unsubscribe', null],
    [['unsubscribe', 'bounce'], 'unsubscribe', 'bounce'],
    [['complaint', 'unsubscribe'], 'complaint', 'complaint']
  ]
  for (const [reasons, offering, plain] of table) {
    t.equal(heldBack(entries(...reasons), true), offering, `${reasons.join(' + ')}, one may unsubscribe`)
    t.equal(heldBack(entries(...reasons), false), plain, `${reasons.join(' + ')}, one may not`)
  }
})

t.test('the last fact tells the whole state', async t => {
  t.strictSame(suppressionOf(null), { address: null, standing: [] })
  t.strictSame(suppressionOf(removed), { address: null, standing: [] })
  t.strictSame(suppressionOf(added('Ada@example.com', entries('manual', 'bounce'))), {
    address: 'Ada@example.com',
    standing: entries('manual', 'bounce')
  })
  t.strictSame(
    suppressionOf(added(null, entries('bounce'))),
    { address: null, standing: entries('bounce') },
    'erased, it still stands'
  )
})

t.test('in any order each reason stands once, by its first email, and holds back what it should', async t => {
  const additions = fc.array(fc.tuple(fc.constantFrom(...REASONS), fc.constantFrom('em_1', 'em_2', null)), {
    maxLength: 12
  })
  fc.assert(
    fc.property(additions, fc.boolean(), (given, unsubscribe) => {
      let standing: StandingReason[] = []
      for (const [reason, email] of given) standing = withReason(standing, entry(reason, email)) ?? standing
      const firsts = given.filter(([reason], i) => given.findIndex(([other]) => other === reason) === i)
      t.strictSame(standing, firsts.map(([reason, email]) => entry(reason, email)))
      t.equal(
        heldBack(standing, unsubscribe) !== null,
        given.some(([reason]) => unsubscribe || reason !== 'unsubscribe')
      )
    }),
    { numRuns: 100 }
  )
})
