import t from 'tap'
import { CLASSES, isGone, isOperators, type BounceClass } from '#streams/email/classes.ts'
import type { SmtpStage } from '#streams/email/decide.ts'
import { RULES, classOfStatus, classify, compile, ruleOf, verdictOnAddress } from '#src/feedback/classify.ts'
import { parseSections } from '#src/feedback/sections.ts'
import { GONE } from '../fixtures/replies-gone.ts'
import { MORE_GONE } from '../fixtures/replies-more-gone.ts'
import { MORE } from '../fixtures/replies-more.ts'
import { ONCE_MISREAD } from '../fixtures/replies-once-misread.ts'
import { RECIPIENT } from '../fixtures/replies-recipient.ts'
import { SENDER } from '../fixtures/replies-sender.ts'
import { WAY } from '../fixtures/replies-way.ts'

interface Sample {
  text: string
  stage: SmtpStage | null
  expected: BounceClass
}

const samples = [GONE, RECIPIENT, SENDER, WAY, MORE_GONE, MORE].flatMap(samplesOf)

function samplesOf (table: Partial<Record<BounceClass, string>>): Sample[] {
  return Object.entries(table).flatMap(([expected, lines]) =>
    lines.trim().replaceAll('⏎\n', '⏎').split('\n').map(line => sampleOf(line, expected as BounceClass))
  )
}

function sampleOf (line: string, expected: BounceClass): Sample {
  const [, stage, text] = /^(\S+) (.+)$/.exec(line)!
  return { text: text!.replaceAll('⏎', '\n'), stage: stage === '-' ? null : stage as SmtpStage, expected }
}

const read = ({ text, stage }: Pick<Sample, 'text' | 'stage'>) => classify({ text, status: null, code: null, stage })
const classOf = (text: string, stage: SmtpStage | null = 'rcpt') => read({ text, stage })
const percent = (part: number, whole: number) => 100 * part / whole

t.test('what servers write is understood', async t => {
  const results = samples.map(sample => ({ ...sample, got: read(sample) }))
  const right = results.filter(({ got, expected }) => got === expected)
  const gone = results.filter(({ expected }) => isGone(expected))
  const called = results.filter(({ got }) => isGone(got))
  const both = called.filter(({ expected }) => isGone(expected))
  for (const why of CLASSES) {
    const asked = results.filter(({ expected }) => expected === why)
    t.comment(`${why.padEnd(16)} ${asked.filter(({ got }) => got === why).length} of ${asked.length}`)
    t.not(asked.length, 0, `${why} has samples`)
  }
  for (const { got, expected, text } of results) if (got !== expected) t.comment(`${expected}, read as ${got}: ${text}`)
  const figures = {
    exact: percent(right.length, results.length),
    precision: percent(both.length, called.length),
    recall: percent(both.length, gone.length)
  }
  t.comment(
    `${results.length} replies: class exact ${figures.exact.toFixed(1)} %, hard precision ${
      figures.precision.toFixed(1)
    } %, hard recall ${figures.recall.toFixed(1)} %`
  )
  t.ok(figures.exact >= 98, 'class')
  t.ok(figures.precision >= 99, 'precision of hard')
  t.ok(figures.recall >= 98, 'recall of hard')
})

t.test('what was once misread is read right', async t => {
  for (const sample of samplesOf(ONCE_MISREAD)) t.equal(read(sample), sample.expected, sample.text)
})

t.test('what voids a phrase voids it nearby only', async t => {
  const between = 'This system belongs to Example Ltd and is watched by day and by night. '.repeat(3)
  for (const [rest, why] of [['greylisted', 'speeding'], ['bad reputation of your host', 'badreputation']] as const) {
    t.equal(classOf(`450 User unknown, ${rest}`), why, rest)
    const far = `550-5.1.1 User unknown.\n550-5.1.1 ${between}\n550 5.1.1 Read about ${rest}.`
    t.equal(classOf(far), 'userunknown', rest)
  }
})

t.test('a carrier that calls a subscriber unknown after DATA means his filter', async t => {
  for (
    const text of [
      '550 Unknown user ada@docomo.ne.jp',
      '550 Invalid recipient: <ada@i.softbank.jp>',
      '550 <ada@ezweb.ne.jp>: User unknown',
      '550 5.2.0 Unknown user ada@t.vodafone.ne.jp'
    ]
  ) {
    t.equal(classOf(text, 'data'), 'filtered', text)
    t.equal(classOf(text.replace('5.2.0 ', '')), 'userunknown', `${text} at RCPT`)
  }
  for (
    const text of [
      '550 5.1.1 Unknown user ada@docomo.ne.jp',
      '550 Unknown user ada@docomo.ne.jp.example',
      '550 Unknown user ada@example.net'
    ]
  ) t.equal(classOf(text, 'data'), 'userunknown', text)
})

t.test('a verification of our own address that failed says nothing about theirs', async t => {
  t.equal(
    classOf(
      '450 4.1.7 <b@a.example>: Sender address rejected: unverified address: host mx.a.example[192.0.2.4] said: ' +
        '550 5.1.1 User unknown (in reply to RCPT TO command)'
    ),
    'rejected'
  )
  t.equal(
    classOf('550-Verification failed for <b@a.example>\n550-No Such User Here\n550 Sender verify failed'),
    'rejected'
  )
})

t.test('names do not decide', async t => {
  t.equal(classOf('550 5.1.1 <spam@virus.example.com>: User unknown'), 'userunknown', 'an address')
  t.equal(classOf('550 5.1.1 User unknown - http://www.example.com/blocked-as-spam'), 'userunknown', 'a link')
  t.equal(classOf('550 5.1.1 [antispam.blocked.example.com] No such user'), 'userunknown', 'a host')
  t.equal(
    classOf('554 5.7.1 rejected, see https://www.spamhaus.org/query/ip/192.0.2.1'),
    'blocked',
    "but a list's link tells"
  )
})

t.test('the last server in the chain knows why', async t => {
  t.equal(
    classOf('host a.example said: 450 4.2.0 try later; host b.example said: 552 5.2.2 mailbox full', null),
    'mailboxfull'
  )
  t.equal(
    classOf('<<< 550 5.1.1 unknown recipient\n<<< 503 5.0.0 Need RCPT (recipient)', null),
    'userunknown',
    'what follows from the refusal explains nothing'
  )
})

t.test('a domain that takes no mail is one class, whatever says so; our own domain is not gone', async t => {
  for (
    const text of [
      'Domain gone.example does not accept mail (nullMX)',
      '556 5.1.10 <ada@gone.example>: Recipient address rejected: Domain gone.example does not accept mail (nullMX)',
      'an MX or SRV record indicated no SMTP service',
      '550 5.1.2 null MX'
    ]
  ) t.equal(classOf(text), 'notaccept', text)
  t.equal(classOf('550 5.7.27 Sender address rejected: Domain shop.example does not accept mail (nullMX)'), 'rejected')
  t.equal(classOf('550 5.7.27 Domain shop.example does not accept mail (nullMX)', 'mail'), 'rejected')
  for (
    const text of ["Sorry, I couldn't find a mail exchanger or IP address. (#5.4.4)", 'no MX record for gone.example']
  ) {
    t.equal(classOf(text, null), 'hostunknown', text)
  }
})

t.test('name service that fails does not say that a domain is gone', async t => {
  for (
    const text of [
      '550 5.1.2 Name server timeout',
      '550 5.1.2 DNS lookup failure: example.net: try again later',
      'host lookup did not complete',
      'Temporary failure in MX lookup',
      "5.1.2 - Bad destination host 'DNS Soft Error looking up example.net (MX): SERVFAIL'"
    ]
  ) t.equal(classOf(text, null), 'networkerror', text)
  t.equal(classOf('550 Host unknown (Authoritative answer from name server)', null), 'hostunknown')
})

t.test('a number about the address says less than words about something else', async t => {
  t.equal(classOf('550 5.1.1 Message refused by carrier'), 'policyviolation')
  t.equal(classOf('550 5.1.1 disk full, cannot accept mail'), 'systemfull')
  t.equal(classOf('550 5.1.1 user not found in authentication database'), 'securityerror')
  t.equal(classOf('451 4.1.1 recipient table not found'), 'systemerror')
  t.equal(classOf('550 5.1.1 originator unknown'), 'rejected')
})

t.test('the lines of a reply are one sentence, and long ones are read to their end', async t => {
  t.equal(classOf('550-Sorry, but the user\n550-is unknown\n550 to this system'), 'userunknown')
  t.equal(classOf('550-Sorry, but the mailbox 550-of this user 550 is full'), 'mailboxfull', 'as Postfix joins them')
  t.equal(classOf(`550-${'We value your privacy. '.repeat(100)}\n550 User unknown`), 'userunknown')
})

t.test('spelling, case, width and accents do not matter', async t => {
  for (
    const text of [
      '550 USER UNKNOWN',
      '550 ＵＳＥＲ　ＵＮＫＮＯＷＮ',
      '550 User_unknown',
      '550 user   unknown',
      '550 Mailbox doesn’t exist',
      '550 Mailbox does not exist'
    ]
  ) t.equal(classOf(text), 'userunknown', text)
  for (const text of ['552 La boîte est pleine', '552 LA BOITE EST PLEINE']) t.equal(classOf(text), 'mailboxfull', text)
})

t.test('words come first, then the enhanced code, then the basic one at its stage', async t => {
  t.equal(classOf('550 5.1.1 mailbox full'), 'mailboxfull')
  t.equal(classOf('550 5.1.1 xyzzy'), 'userunknown')
  t.equal(
    classify({ text: '550 5.0.0 xyzzy', status: '5.1.2', code: 550, stage: 'rcpt' }),
    'hostunknown',
    'a code that says something beats 5.0.0'
  )
  t.equal(classOf('550 xyzzy', 'mail'), 'rejected')
  t.equal(classOf('550 xyzzy'), 'undefined')
  t.equal(classOf('', null), 'undefined')
})

t.test('enhanced codes', async t => {
  const known = {
    '5.1.1': 'userunknown',
    '5.1.10': 'notaccept',
    '4.1.1': 'onhold',
    '5.7.18': 'hasmoved',
    '5.7.606': 'blocked',
    '4.3.2': 'systemerror',
    '5.3.2': 'notaccept',
    '5.7.99': 'policyviolation'
  }
  for (const [status, why] of Object.entries(known)) t.equal(classOfStatus(status), why, status)
  for (const open of ['5.0.0', '5.1.0', '5.2.0', '4.4.0', '5.1.99', '5.9.9']) t.equal(classOfStatus(open), null, open)
})

t.test('before RCPT nothing is said of a recipient', async t => {
  for (
    const text of [
      '550 Host unknown',
      '501 5.1.2 Invalid domain name',
      '504 5.5.2 <localhost>: Helo command rejected: Host not found'
    ]
  ) t.equal(isGone(classOf(text, 'ehlo')), false, text)
  t.equal(classOf('550 5.1.2 Domain not found', 'mail'), 'rejected')
  t.equal(classOf('Host not found', 'connect'), 'hostunknown', 'but we look for the host before we speak to it')
})

t.test('a 4xx must say plainly that somebody is gone', async t => {
  t.equal(
    classOf('450 4.1.1 <x@a.example>: Recipient address rejected: User unknown in virtual mailbox table'),
    'userunknown'
  )
  for (
    const text of [
      '450 mailbox unavailable',
      '450 4.1.1 recipient unverified',
      '450 4.1.1 xyzzy',
      '451 4.1.2 Host not found, try again',
      '450 4.1.1 Recipient address rejected'
    ]
  ) {
    t.equal(isGone(classOf(text)), false, text)
  }
})

t.test('an address is gone when a gone class is said', async t => {
  t.equal(verdictOnAddress('userunknown', { code: 550, status: '5.1.1' }), 'hard')
  t.equal(verdictOnAddress('userunknown', { code: null, status: null }), 'hard', 'a bounce that names no code')
  t.equal(
    verdictOnAddress('userunknown', { code: 450, status: '4.1.1' }),
    'hard',
    'a server that repeats itself for ever'
  )
  t.equal(verdictOnAddress('hasmoved', { code: null, status: '4.1.6' }), 'hard')
  t.equal(verdictOnAddress('notaccept', { code: 521, status: '5.3.2' }), 'hard')
  t.equal(verdictOnAddress('notaccept', { code: 421, status: '4.3.2' }), 'soft', 'not now')
  t.equal(verdictOnAddress('notaccept', { code: null, status: '4.3.2' }), 'soft')
  t.equal(verdictOnAddress('mailboxfull', { code: 552, status: '5.2.2' }), 'soft')
  t.same(CLASSES.filter(isGone), ['userunknown', 'hostunknown', 'hasmoved', 'notaccept'])
  t.same(CLASSES.filter(why => isGone(why) && isOperators(why)), [])
})

t.test('phrases are read as they are written', async t => {
  const text = '# Why.\n{box} = mail ?box\n\nmailboxfull status=2.2 digit=5\n  {box} is (full|\n      over)\n  ! size'
  t.strictSame(parseSections('x.txt', text).map(ruleOf), [{
    class: 'mailboxfull',
    status: ['2.2'],
    digit: 5,
    phrases: ['mail ?box is (full|over)'],
    unless: ['size']
  }])
})

t.test('a file of phrases that does not follow the form is not loaded', async t => {
  for (
    const [text, fault] of [
      ['userunknown', /must be followed by phrases: userunknown/],
      ['  no such user', /a head line must come first/],
      ['userunknown\n    no such user', /indented by 0, 2 or 6 blanks/],
      ['userunknown\n  no such user ', /must not end in a blank/],
      ['userunknown\n  no such {box}', /\{box\} must be defined/],
      ['userunkown\n  no such user', /must be a class/],
      ['userunknown digit=2\n  no such user', /not digit=2/],
      ['userunknown\n  ! no such user', /must have a phrase/]
    ] as const
  ) t.throws(() => parseSections('x.txt', text).map(ruleOf), { message: fault }, text)
})

t.test('no phrase is empty, greedy or twice the same', async t => {
  for (const { class: why, phrases, unless = [] } of RULES) {
    t.equal(new Set(phrases).size, phrases.length, `${why} repeats itself`)
    for (const phrase of [...phrases, ...unless]) {
      const bare = phrase.replaceAll(/\\./g, '')
      if (/[*+]|\{\d*,\}/.test(bare)) t.fail(`${why} repeats without bound: ${phrase}`)
      if (compile({ class: why, phrases: [phrase] }).pattern.test('')) {
        t.fail(`${why} matches nothing at all: ${phrase}`)
      }
    }
  }
})

t.test('hostile input of any length and kind is read', async t => {
  const seeds = [
    '<',
    '<<<',
    '@',
    'a@',
    'a.',
    '1.',
    '5.1.1',
    'http://',
    'said: ',
    'http://a?p=',
    '\n550-5.1.1 ',
    '\ud800',
    '\u0300',
    'user ',
    'mailbox is ',
    'exceed ',
    '﷽',
    '5'.repeat(99)
  ]
  for (const rule of RULES) {
    seeds.push(rule.phrases[0]!.replaceAll(/[\\()?~]/g, ''), rule.phrases.at(-1)!.replaceAll(/[\\()?~]/g, ' '))
  }
  for (const seed of seeds) {
    const text = seed.repeat(Math.ceil(100_000 / seed.length))
    if (!CLASSES.includes(classOf(text))) t.fail(seed)
    if (!CLASSES.includes(classOf(`550 5.1.1 ${text.slice(0, 3000)} user unknown`))) t.fail(seed)
  }
})
