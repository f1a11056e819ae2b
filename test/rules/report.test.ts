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

const exim = (stage: string, text: string): string =>
  `From: Mailer-Daemon@x.example\nSubject: Mail delivery failed: returning message to sender\n
This message was created automatically by mail delivery software.\n
  ada@example.net\n    host mx.example.net [192.0.2.9]
    SMTP error from remote mail server after ${stage}:\n    ${text}\n`
const postfix = (command: string, text: string): string =>
  status(
    `Final-Recipient: rfc822; ada@example.net\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; ${text}`,
    `<ada@example.net>: host mx.example.net[192.0.2.9] said: ${text} (in\n    reply to ${command} command)`
  )

t.test('before RCPT nothing is said of a recipient: the stage that a report names decides', async t => {
  const early = ['MAIL FROM:<b@shop.example> SIZE=9', 'EHLO out.shop.example', 'HELO out', 'initial connection']
  for (const stage of early) {
    for (const text of ['550 5.1.1 User unknown', '550 5.1.2 Host unknown', '550 5.1.1 no']) {
      t.match(await readText(exim(stage, text)), { kind: 'soft', recipients: [{ address: 'ada@example.net' }] }, stage)
    }
  }
  t.equal((await readText(exim('RCPT TO:<ada@example.net>', '550 5.1.1 no'))).kind, 'hard')
  for (const command of ['MAIL FROM', 'EHLO', 'HELO']) {
    t.equal((await readText(postfix(command, '550 5.1.1 <b@shop.example>: User unknown'))).kind, 'soft', command)
  }
  for (const command of ['RCPT TO', 'end of DATA']) {
    const sender = '550 5.1.1 <b@shop.example>: Sender address rejected: User unknown'
    t.equal((await readText(postfix(command, sender))).recipients[0]?.reason, 'rejected', command)
  }
  t.equal((await readText(postfix('RCPT TO', '550 5.1.1 User unknown'))).kind, 'hard')
})

t.test('of a transcript the command before the refusal names the stage', async t => {
  const transcript = (lines: string): string =>
    `From: MAILER-DAEMON@x.example\nSubject: Returned mail: see transcript for details\n
   ----- The following addresses had permanent fatal errors -----\n<ada@example.net>\n
   ----- Transcript of session follows -----\n... while talking to mx.example.net.:\n${lines}\n`
  const refused = '<<< 550 5.1.1 User unknown\n>>> DATA\n<<< 503 5.0.0 Need RCPT'
  t.equal((await readText(transcript(`>>> MAIL From:<b@shop.example>\n${refused}`))).kind, 'soft')
  t.equal((await readText(transcript(`>>> RCPT To:<ada@example.net>\n${refused}`))).kind, 'hard')
  t.equal((await readText(transcript('<<< 554 5.1.1 unknown user or host'))).kind, 'soft', 'no command: a greeting')
})

/** How programs tell of a command and its refusal. `name` = the command without what it carries. */
const TRANSCRIPTS: Record<string, (command: string, name: string, refused: string) => string> = {
  arrows: (command, _, refused) =>
    'Failed address: ada@example.net\n\n--- Session Transcript ---\n <-- 220 x.example ESMTP\n' +
    ` --> EHLO out.shop.example\n <-- 250 ok\n --> ${command}\n <-- ${refused}\n --> QUIT\n`,
  'arrows behind times': (command, _, refused) =>
    'Failed address: ada@example.net\n\n--- Session Transcript ---\n' +
    `Mon 2026-11-02 08:00:00: --> EHLO out.shop.example\nMon 2026-11-02 08:00:00: <-- 250 ok\n` +
    `Mon 2026-11-02 08:00:00: --> ${command}\nMon 2026-11-02 08:00:01: <-- ${refused}\n` +
    'Mon 2026-11-02 08:00:01: --> QUIT\n',
  letters: (command, _, refused) =>
    'Your message could not be delivered to <ada@example.net>.\n\nS: 220 x.example ESMTP\nC: EHLO out.shop.example\n' +
    `S: 250 ok\nC: ${command}\nS: ${refused}\n`,
  words: (_, name, refused) =>
    'This is the DragonFly Mail Agent v0.13 at out.shop.example.\n\n' +
    'There was an error delivering your mail to <ada@example.net>.\n\n' +
    `x.example did not like our ${name}:\n${refused}\n`,
  'one sentence': (_, name, refused) =>
    `<ada@example.net>\nSMTP error from remote server for ${name} command, host: x.example (192.0.2.9) ` +
    `reason: ${refused}\n`,
  brackets: (_, name, refused) =>
    'We had trouble delivering your message.\n\nSMTP Server <x.example> rejected recipient <ada@example.net>\n' +
    `  (Error following ${name.split(' ')[0]} command). It responded as follows: [${refused}]\n`,
  labels: (command, _, refused) => `Delivery to ada@example.net failed.\nCommand: ${command}\nResponse: ${refused}\n`
}

t.test('our own sender or host refused is no missing recipient, whatever the form of the transcript', async t => {
  const cases = [
    ['MAIL FROM', 'MAIL FROM:<b@shop.example> SIZE=2210', '550 5.1.1 User unknown', 'soft'],
    ['MAIL FROM', 'MAIL From:<b@shop.example>', '553 mailbox does not exist', 'soft'],
    ['EHLO', 'EHLO out.shop.example', '550 host unknown', 'soft'],
    ['RCPT TO', 'RCPT TO:<ada@example.net>', '550 5.1.1 User unknown', 'hard'],
    ['RCPT TO', 'RCPT TO:<ada@example.net>', '550 no such user', 'hard']
  ] as const
  for (const [form, write] of Object.entries(TRANSCRIPTS)) {
    for (const [name, command, refused, kind] of cases) {
      const report = await readText(
        `From: MAILER-DAEMON@x.example\nSubject: Undelivered mail\n\n${write(command, name, refused)}`
      )
      t.match(report, { kind, recipients: [{ address: 'ada@example.net' }] }, `${form}: ${command}: ${refused}`)
    }
  }
})

t.test('a line set in below an address names no other recipient', async t => {
  const { recipients } = await readText(
    'From: MAILER-DAEMON@x.example\nSubject: Undelivered Mail Returned to Sender\n\n' +
      'This is the mail system at host x.example.\n\n' +
      '<ada@example.net>: host mx.example.net[192.0.2.9] said: 550 5.1.8\n' +
      '    <b@shop.example>: Domain not found (in reply to MAIL FROM command)\n'
  )
  t.match(recipients, [{ address: 'ada@example.net', reason: 'rejected', status: '5.1.8' }])
  t.equal(recipients.length, 1)
})

t.test('the version of a program is no status', async t => {
  const { recipients: [one] } = await readText(
    'From: MAILER-DAEMON@x.example\nSubject: Undeliverable mail\n\n' +
      'This is the mail system at host x.example, IMail 5.0.8.\n\n<ada@example.net>: mailbox is full\n'
  )
  t.match(one, { reason: 'mailboxfull', status: null })
})

const notice = (json: unknown, from = 'AWS Notifications <no-reply@sns.amazonaws.com>'): string =>
  `From: ${from}\nSubject: AWS Notification Message\n\n${
    JSON.stringify(json)
  }\n\n--\nIf you wish to stop, click below.\n`

t.test('Amazon SES says in JSON what became of mail', async t => {
  const mail = {
    source: 'b+tok3n@bounce.shop.example',
    headers: [{ name: 'Message-ID', value: '<em_1.0@shop.example>' }, { name: 'CFBL-Feedback-ID', value: 'tok3n' }]
  }
  const bounced = { emailAddress: 'ada@example.net', status: '5.1.1', diagnosticCode: 'smtp; 550 5.1.1 User unknown' }
  const bounce = { bounceType: 'Permanent', bounceSubType: 'General', bouncedRecipients: [bounced] }
  const said = { notificationType: 'Bounce', bounce, mail }
  for (
    const json of [said, { ...said, notificationType: undefined, eventType: 'Bounce' }, {
      Message: JSON.stringify(said)
    }]
  ) {
    t.match(await readText(notice(json)), {
      kind: 'hard',
      recipients: [{ address: 'ada@example.net', status: '5.1.1', code: 550, reason: 'userunknown', action: 'failed' }],
      evidence: { returnPaths: ['b+tok3n@bounce.shop.example'], feedbackIds: ['tok3n'] }
    })
  }
  const full = { ...bounce, bounceSubType: 'MailboxFull', bouncedRecipients: [{ emailAddress: 'ada@example.net' }] }
  t.match(await readText(notice({ ...said, bounce: full })), { kind: 'soft', recipients: [{ reason: 'mailboxfull' }] })
  const complaint = { complaintFeedbackType: 'abuse', complainedRecipients: [{ emailAddress: 'ada@example.net' }] }
  t.match(await readText(notice({ notificationType: 'Complaint', complaint, mail })), {
    kind: 'complaint',
    feedbackType: 'abuse',
    recipients: [{ address: 'ada@example.net' }]
  })
  const delivery = { recipients: ['ada@example.net'] }
  t.equal((await readText(notice({ notificationType: 'Delivery', delivery, mail }))).kind, 'delivered')
  const later = {
    ...said,
    eventType: 'DeliveryDelay',
    notificationType: undefined,
    deliveryDelay: { delayedRecipients: [bounced] }
  }
  t.match(await readText(notice(later)), { kind: 'soft', recipients: [{ action: 'delayed' }] })
})

t.test('JSON whose lines a mail server has broken is read', async t => {
  const one = { emailAddress: 'ada@example.net', status: '5.1.1', diagnosticCode: 'smtp; 550 5.1.1 User unknown' }
  const json = notice({ notificationType: 'Bounce', bounce: { bouncedRecipients: [one] }, mail: {} })
  for (const broken of ['User!\n  unknown', 'User \nunknown', 'User\nunknown']) {
    t.match(await readText(json.replace('User unknown', broken)), {
      kind: 'hard',
      recipients: [{ address: 'ada@example.net', reason: 'userunknown', diagnostic: '550 5.1.1 User unknown' }]
    }, broken)
  }
})

t.test('other JSON, and JSON that a person sends on, says nothing', async t => {
  const said = {
    notificationType: 'Bounce',
    mail: {},
    bounce: { bouncedRecipients: [{ emailAddress: 'a@b.example' }] }
  }
  t.equal((await readText(notice({ ...said, notificationType: 'AmazonSnsSubscriptionSucceeded' }))).kind, 'none')
  t.equal((await readText(notice({ ...said, mail: null }))).kind, 'none')
  t.equal((await readText(notice({ ...said, bounce: [] }))).kind, 'none')
  t.equal((await readText(notice(said).replace('Subject: ', 'Subject: Fwd: '))).kind, 'none')
  t.equal((await readText(notice({ ...said, bounce: { ...said.bounce, bounceSubType: 'constructor' } }))).kind, 'soft')
  t.equal((await readText(`From: a@b.example\n\n${'{"notificationType":'.repeat(5000)}`)).kind, 'none')
  const many = { bouncedRecipients: Array(500).fill({ emailAddress: 'a@b.example' }) }
  t.ok((await readText(notice({ ...said, bounce: many }))).recipients.length <= 50)
})

t.test('a list that refuses a post names itself', async t => {
  const { recipients } = await readText(
    'From: list-bounces@example.net\nReturn-Path: <list-bounces@example.net>\nSubject: Hello\n' +
      'X-BeenThere: list@example.net\n\nYou are not allowed to post to this mailing list, and your message has\n' +
      'been automatically rejected. Contact list-owner@example.net.\n'
  )
  t.match(recipients, [{ address: 'list@example.net', kind: 'soft', reason: 'filtered' }])
})

t.test('a session that Postfix reports is read, and a reply that blames the server believed', async t => {
  const { recipients } = await readText(
    'From: MAILER-DAEMON@x.example\nSubject: Postfix SMTP server: errors from out[192.0.2.1]\n\n' +
      'Transcript of session follows.\n\n Out: 250 8BITMIME\n In:  MAIL FROM:<b@shop.example>\n Out: 250 2.1.0 Ok\n' +
      ' In:  RCPT TO:<ada@example.net>\n Out: 250 2.1.5 Ok\n In:  DATA\n Out: 354 go on\n' +
      ' Out: 451 4.3.0 Error: queue file write error\n In:  QUIT\n'
  )
  t.match(recipients, [{ address: 'ada@example.net', kind: 'soft', reason: 'systemerror', status: '4.3.0' }])
})

t.test('a session that ended before RCPT is about nobody', async t => {
  const { recipients } = await readText(
    'From: MAILER-DAEMON@x.example\nSubject: Postfix SMTP server: errors from out[192.0.2.1]\n\n' +
      'Transcript of session follows.\n\n Out: 250 8BITMIME\n In:  MAIL FROM:<b@shop.example>\n' +
      ' Out: 451 4.3.0 <b@shop.example>: Temporary lookup failure\n In:  QUIT\n'
  )
  t.match(recipients, [{ kind: 'soft', reason: 'systemerror', status: '4.3.0' }])
  t.equal(recipients[0]?.address, null)
})

t.test('what a server says in a report without a text counts for more than its number', async t => {
  const bounced = (said: string): string =>
    status(`Final-Recipient: rfc822;ada@example.net\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; ${said}`)
      .replace('failed to deliver', '')
  for (
    const [said, reason] of [
      ['550 5.1.1 error writing message: No space left on device', 'systemfull'],
      ['554 5.1.1 Gateway: access denied for host 192.0.2.1', 'blocked'],
      ['550 5.1.1 Message refused by carrier', 'policyviolation']
    ] as const
  ) {
    const { recipients } = await readText(bounced(said))
    t.match(recipients, [{ kind: 'soft', reason, status: '5.1.1' }], said)
    const one = { emailAddress: 'ada@example.net', status: '5.1.1', diagnosticCode: `smtp; ${said}` }
    const json = { notificationType: 'Bounce', bounce: { bouncedRecipients: [one] }, mail: {} }
    t.match(await readText(notice(json)), { kind: 'soft', recipients: [{ reason }] }, said)
  }
  t.equal((await readText(bounced('550 5.1.1 xyzzy'))).kind, 'hard')
})

t.test('the number tells whether a carrier refused a subscriber or a message', async t => {
  const said = (code: string): string =>
    status(
      `Final-Recipient: rfc822;ada@docomo.ne.jp\nAction: failed\nStatus: ${code}\n` +
        'Diagnostic-Code: SMTP; 550 Unknown user',
      '   ----- Transcript of session follows -----\n... while talking to mfsmax.docomo.ne.jp.:\n>>> DATA\n' +
        '<<< 550 Unknown user\n<<< 503 Need RCPT\n'
    )
  t.match(await readText(said('5.2.0')), { kind: 'soft', recipients: [{ reason: 'filtered' }] })
  t.match(await readText(said('5.1.1')), { kind: 'hard', recipients: [{ reason: 'userunknown' }] })
})

t.test('a transcript with its arrows turned round is read', async t => {
  for (const [sent, received] of [['>>>', '<<<'], ['<<<', '>>>']]) {
    const said = (command: string): Promise<BounceReport> =>
      readText(
        'From: postmaster@gate.example\nSubject: Mail could not be delivered\n\n' +
          '****** Message from InterScan Messaging Security Suite ******\n\n' +
          `Sent ${sent} ${command}\nReceived ${received} 550 no such user here\n\n` +
          'Unable to deliver message to <ada@example.net>.\n'
      )
    const { recipients } = await said('RCPT TO:<ada@example.net>')
    t.match(recipients, [{ reason: 'userunknown', address: 'ada@example.net' }])
    t.equal((await said('MAIL FROM:<b@shop.example>')).kind, 'soft', `${sent} MAIL`)
  }
})

t.test('below a file stands the address that led there', async t => {
  const { recipients } = await readText(
    'From: Mailer-Daemon@x.example\nSubject: Mail delivery failed: returning message to sender\n\n' +
      'This message was created automatically by mail delivery software.\n\n  save to /home/ada/Maildir\n' +
      '    (generated from ada@example.net)\n    mailbox is full (MTA-imposed quota exceeded while writing to file;' +
      ' ask admin@x.example)\n\n  pipe to |/usr/bin/autoreply\n    (ultimately generated from otto@example.net)\n' +
      '    child process returned 127\n'
  )
  t.match(recipients, [{ address: 'ada@example.net', reason: 'mailboxfull' }, {
    address: 'otto@example.net',
    reason: 'mailererror'
  }])
  t.equal(recipients.length, 2)
})

t.test('list managers are known by their names and headers', async t => {
  const fml = 'From: shop-admin@lists.example\nReturn-Path: <shop-admin@lists.example>\n' +
    'X-MLServer: fml [fml 4.0.3 release]\nSubject: NOT MEMBER article from ada@example.net\n\n' +
    'You are not a member of this mailing list.\n'
  t.match(await readText(fml), { kind: 'soft', recipients: [{ reason: 'filtered' }] })
  t.equal((await readText(fml.replace(/X-MLServer.*\n/, ''))).kind, 'none')
  t.match(
    await readText(
      'From: listmanager@lists.example\nSubject: Returned mail: ada@example.net\n\n' +
        'The mail for ada@example.net was not delivered:\n\n  Mailbox full (over quota)\n'
    ),
    { kind: 'soft', recipients: [{ address: 'ada@example.net', reason: 'mailboxfull' }] }
  )
})

t.test('what follows a refusal does not say what it means', async t => {
  const { recipients } = await readText(
    "From: postmaster@x.example\nSubject: [BOUNCE]\n\nHi. This is the James mail server at x.example.\nI'm afraid I " +
      "wasn't able to deliver your message to the following addresses.\n\nError message below:\n550 - Requested " +
      'action not taken: no such user here\n\nMessage details:\n  MAIL FROM: b@shop.example\n' +
      '  RCPT TO: ada@example.net\n'
  )
  t.match(recipients, [{ kind: 'hard', reason: 'userunknown', address: 'ada@example.net' }])
})

t.test('advice to check the spelling is no diagnosis', async t => {
  const { recipients } = await readText(
    'From: mailer-daemon@x.example\nSubject: Message undeliverable: Hello\n\n' +
      'The following recipient(s) could not be reached:\n\nada@example.net\n   Error Type: SMTP\n' +
      "   Error Description: No mail servers appear to exist for the recipient's address.\n" +
      "   Additional information: Please check that you have not misspelled the recipient's email address.\n"
  )
  t.match(recipients, [{ kind: 'hard', reason: 'hostunknown' }])
})

t.test('a category that is none of PowerMTA says nothing', async t => {
  const { recipients } = await readText(
    status('Final-Recipient: rfc822;a@b.example\nAction: failed\nX-PowerMTA-BounceCategory: constructor')
  )
  t.match(recipients, [{ kind: 'soft', reason: 'undefined' }])
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
