import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { RAW_OCTETS_MAX } from '#src/feedback/entity.ts'
import { readReport, type BounceReport } from '#src/feedback/report.ts'
import { isGone } from '#streams/email/classes.ts'

/** What a fixture must come out as. `reason` is left out where it is a matter of taste. */
interface Expected {
  kind: string
  reason?: string
  addresses: string[]
  action?: string
  addressesUnchecked?: boolean
}

const FOLDER = join(import.meta.dirname, '../fixtures/bounces')
const EXPECTED = JSON.parse(readFileSync(join(FOLDER, 'expected.json'), 'utf8')) as Record<string, Expected>
const NAMES = Object.keys(EXPECTED)
const EVIDENCE = { messageIds: ['em_1.0@shop.example'], returnPaths: ['b+tok3n@bounce.shop.example'] }

const readFile = (name: string): Promise<BounceReport> => readReport(readFileSync(join(FOLDER, `${name}.eml`)))
const readText = (text: string): Promise<BounceReport> => readReport(Buffer.from(text.replaceAll(/\r?\n/g, '\r\n')))
const addressesOf = (report: BounceReport): string[] => report.recipients.flatMap(({ address }) => address ?? []).sort()
const rate = (right: number, all: number): string => `${right}/${all} = ${(100 * right / all).toFixed(1)} %`

t.test('every fixture has its expectation, and the other way round', async t => {
  t.strictSame(
    readdirSync(FOLDER).filter(name => name.endsWith('.eml')).map(name => name.slice(0, -4)).sort(),
    NAMES.sort()
  )
})

t.test('the figures', async t => {
  const read = await Promise.all(
    NAMES.map(async name => ({ name, expected: EXPECTED[name]!, report: await readFile(name) }))
  )
  const bounces = read.filter(({ expected: { kind } }) => kind === 'hard' || kind === 'soft' || kind === 'delivered')
  const hard = read.filter(({ expected }) => expected.kind === 'hard')
  const saidHard = read.filter(({ report }) => report.kind === 'hard')
  const rightHard = hard.filter(({ report }) => report.kind === 'hard')
  const classed = bounces.filter(({ expected }) => expected.reason !== undefined)
  const rightClass = classed.filter(({ expected, report }) => report.recipients[0]?.reason === expected.reason)
  const found = bounces.filter(({ expected, report }) =>
    addressesOf(report).join() === [...expected.addresses].sort().join()
  )
  const complaints = read.filter(({ expected }) => expected.kind === 'complaint')
  const recognised = complaints.filter(({ report }) => report.kind === 'complaint')
  const innocent = read.filter(({ expected }) => expected.kind === 'none')
  t.comment(
    `kind right          ${
      rate(read.filter(({ expected, report }) => report.kind === expected.kind).length, read.length)
    }`
  )
  t.comment(`class exact         ${rate(rightClass.length, classed.length)}`)
  t.comment(`hard precision      ${rate(rightHard.length, saidHard.length)}`)
  t.comment(`hard recall         ${rate(rightHard.length, hard.length)}`)
  t.comment(`address found       ${rate(found.length, bounces.length)}`)
  t.comment(`complaints          ${rate(recognised.length, complaints.length)}`)
  t.comment(
    `innocent left alone ${rate(innocent.filter(({ report }) => report.kind === 'none').length, innocent.length)}`
  )
  t.ok(rightClass.length / classed.length >= 0.92, 'class exact')
  t.equal(rightHard.length, saidHard.length, 'none is called hard that is not')
  t.ok(rightHard.length / hard.length >= 0.92, 'hard recall')
  t.ok(found.length / bounces.length >= 0.97, 'address found')
  t.ok(recognised.length / complaints.length >= 0.95, 'complaints')
})

t.test('each form is read as what it is', async t => {
  for (const [name, expected] of Object.entries(EXPECTED)) {
    const report = await readFile(name)
    t.equal(report.kind, expected.kind, name)
    if (expected.reason !== undefined) t.equal(report.recipients[0]?.reason, expected.reason, `${name}: why`)
    if (expected.action !== undefined) t.equal(report.recipients[0]?.action, expected.action, `${name}: action`)
    if (expected.addressesUnchecked !== true) {
      t.strictSame(addressesOf(report), [...expected.addresses].sort(), `${name}: whom`)
    }
  }
})

t.test('what it says of itself holds', async t => {
  for (const name of NAMES) {
    const { kind, recipients } = await readFile(name)
    t.ok(
      recipients.every(({ diagnostic }) =>
        diagnostic === null || (diagnostic.length <= 1000 && diagnostic.isWellFormed())
      ),
      `${name}: diagnostics are short and clean`
    )
    t.ok(recipients.every(one => one.kind !== 'hard' || isGone(one.reason)), `${name}: hard means gone`)
    t.ok(kind === 'none' || recipients.some(one => one.kind === kind), `${name}: the whole is its gravest part`)
  }
})

t.test('one report speaks of several recipients, each with its own reason', async t => {
  for (const name of ['dsn-two-unparted', 'qmail-two-recipients', 'sendmail-two-transcript']) {
    const { recipients } = await readFile(name)
    t.strictSame(recipients.map(({ kind, reason }) => [kind, reason]), [['hard', 'userunknown'], [
      'soft',
      'mailboxfull'
    ]], name)
  }
})

t.test('the returned header is given back as evidence', async t => {
  t.match((await readFile('postfix-dsn')).evidence, EVIDENCE)
  t.match((await readFile('qmail-no-mailbox')).evidence, EVIDENCE, 'also where it is only pasted')
  t.match((await readFile('sendmail-dsn')).evidence, EVIDENCE, 'or cut down to a header')
  const { evidence } = await readFile('arf-redacted')
  t.strictSame(evidence.unsubscribeUrls, ['mailto:u+tok3n@bounce.shop.example', 'https://shop.example/u/tok3n'])
  t.strictSame(evidence.feedbackIds, ['bulk:k1:t1:jetpost'])
  t.strictSame((await readFile('dragonfly')).evidence.deliveredTo, ['b+tok3n@bounce.shop.example'])
  t.strictSame(
    (await readFile('auto-exchange')).evidence.messageIds,
    ['em_1.0@shop.example'],
    'an answer names what it answers'
  )
})

const status = (block: string, beside = ''): string =>
  `From: MAILER-DAEMON@mx.example.net\nSubject: Undelivered Mail\nMIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary=x

--x

${beside}
--x
Content-Type: message/delivery-status

${block}
--x--
`

t.test('an envelope id is decoded', async t => {
  const report = await readText(
    status('Original-Envelope-Id: em+2B1\n\nFinal-Recipient: rfc822;ada@example.net\nAction: failed\nStatus: 5.1.1')
  )
  t.strictSame(report.evidence.envelopeIds, ['em+1'])
})

t.test('a code that says something wins over one that does not, no matter who states it', async t => {
  const { recipients: [one] } = await readText(
    status(
      'Final-Recipient: rfc822;ada@example.net\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 5.2.2 no'
    )
  )
  t.match(one, { status: '5.2.2', code: 550, reason: 'mailboxfull', kind: 'soft' })
})

t.test('where the status says nothing, the people are told', async t => {
  const { recipients: [one] } = await readText(
    status(
      'Final-Recipient: rfc822;ada@example.net\nAction: failed\nStatus: 5.0.0',
      '  ada@example.net\n    Unknown user\n'
    )
  )
  t.match(one, { kind: 'hard', reason: 'userunknown', diagnostic: /Unknown user/ })
})

t.test('that an address is gone is hard whatever the first digit; that a host takes no mail may pass', async t => {
  const said = async (action: string, text: string): Promise<string> =>
    (await readText(
      status(`Final-Recipient: rfc822;ada@example.net\nAction: ${action}\nDiagnostic-Code: smtp; ${text}`)
    )).kind
  t.equal(await said('failed', '450 4.1.1 User unknown'), 'hard')
  t.equal(await said('failed', '450 4.1.2 Host unknown'), 'hard')
  t.equal(await said('failed', '556 5.1.10 Domain does not accept mail'), 'hard')
  t.equal(await said('failed', '450 4.1.10 Domain does not accept mail'), 'soft')
  t.equal(await said('delayed', '450 4.1.1 User unknown'), 'soft', 'but as long as it is tried there is no verdict')
})

t.test('a returned message with parts of its own does not hide the report', async t => {
  const returned = 'Received: from out.shop.example\nMessage-ID: <em_1.0@shop.example>\nTo: ada@example.net\n' +
    'Content-Type: multipart/alternative; boundary="q"\n\n' +
    '--q\nContent-Type: text/plain\n\nWrite to help@shop.example, 550.\n\n--q--\n'
  const report = await readText(
    'Return-Path: <>\nFrom: MAILER-DAEMON@x.example\nSubject: failure notice\n\n<ada@example.net>:\n' +
      `User unknown\n\n${returned}`
  )
  t.match(report, {
    kind: 'hard',
    recipients: [{ address: 'ada@example.net', reason: 'userunknown' }],
    evidence: { messageIds: ['em_1.0@shop.example'] }
  })
})

t.test('an unlabelled text with accents is no Russian', async t => {
  const raw = Buffer.from(
    'Return-Path: <>\r\nFrom: MAILER-DAEMON@x.example\r\nContent-Type: text/plain; ' +
      'charset=iso-8859-1\r\n\r\nada@example.net: Empfänger unbekannt\r\n',
    'latin1'
  )
  t.match(await readReport(raw), { kind: 'hard', recipients: [{ diagnostic: /Empfänger/ }] })
})

t.test('the same words count from a server, and not from somebody with an address', async t => {
  const text = (path: string, from: string, subject: string): string =>
    `Return-Path: <${path}>\nFrom: ${from}\nSubject: ${subject}\n\nbob@example.net could not be ` +
    'delivered: user unknown\n'
  t.equal((await readText(text('', 'Mail System <postmaster@x.example>', 'Your mail'))).kind, 'hard')
  t.equal((await readText(text('', 'noreply@x.example', 'Delivery failed'))).kind, 'hard', 'two of three will do')
  t.equal((await readText(text('ann@x.example', 'Ann <ann@x.example>', 'Delivery failed'))).kind, 'none')
  t.equal(
    (await readText(text('', 'Mail System <postmaster@x.example>', 'Report domain: x.example Submitter: y.example')))
      .kind,
    'none',
    'figures are about nobody'
  )
})

t.test('what was sent and comes back is never its own diagnosis', async t => {
  const text = 'Return-Path: <>\nFrom: MAILER-DAEMON@mx.example.net\nSubject: failure notice\n\nHi. This is the ' +
    'qmail-send program at mx.example.net.\n' +
    '<ada@example.net>:\nI do not want it.\n\n--- Below this line is a copy of the message.\n\n' +
    'Return-Path: <b@shop.example>\nTo: ada@example.net\nFrom: eve@shop.example\nSubject: x\n\n550 ' +
    '5.1.1 User unknown, mailbox full, blocked\n'
  t.match(await readText(text), {
    kind: 'soft',
    recipients: [{ address: 'ada@example.net', reason: 'undefined', status: null, code: null }]
  })
})

t.test('odd and hostile mail gives nothing, or little, but no trouble', async t => {
  const texts = [
    '',
    '\0',
    '\n\n\n',
    ':',
    'Content-Type: multipart/report',
    'Content-Type: multipart/report; boundary=',
    'Content-Type: multipart/report; boundary="a"\n\n--a--',
    `Content-Type: multipart/report; boundary=a\n\n${'--a\n\n'.repeat(100_000)}`,
    `Content-Type: multipart/mixed; boundary=a\n\n${'--a\nContent-Type: multipart/mixed; boundary=a\n\n'.repeat(5000)}`,
    `Subject: ${'x'.repeat(500_000)}`,
    'X: y\n'.repeat(100_000),
    `Content-Type: text/html\n\n${'<'.repeat(500_000)}`,
    status(`Final-Recipient: rfc822;a@b.example\nAction: failed\n${'\n'.repeat(100_000)}`),
    status('Final-Recipient: rfc822;a@b.example\nAction: failed\n\n'.repeat(5000)),
    `From: MAILER-DAEMON@x.example\nSubject: failure notice\n\nHi. This is the qmail-send program at x\n${
      '<a@b.example>:\n'.repeat(30_000)
    }`
  ]
  for (const text of texts) {
    const report = await readText(text)
    t.ok(report.recipients.length <= 50, JSON.stringify(text.slice(0, 60)))
  }
})

t.test('only the first half megabyte is read', async t => {
  const early = status('Final-Recipient: rfc822;ada@example.net\nAction: failed\nStatus: 5.1.1')
  t.equal((await readText(early + 'x'.repeat(2 * RAW_OCTETS_MAX))).kind, 'hard')
  const late = `X-Padding: ${'x\n '.repeat(RAW_OCTETS_MAX)}\n${early}`
  t.equal((await readText(late)).kind, 'none')
})
