import t from 'tap'
import { readSubmission } from '#src/servers/submission/draft.ts'
import { mailboxesIn } from '#src/servers/submission/mailboxes.ts'

const FROM = 'From: hello@shop.example'

const read = async (head: string[], recipients = ['ada@example.net'], body = 'Hello') =>
  await readSubmission({ raw: Buffer.from(`${[...head, 'Subject: Hi'].join('\r\n')}\r\n\r\n${body}\r\n`), recipients })

t.test('From and Sender name one mailbox each, however it is written', async t => {
  const one = [
    'hello@shop.example',
    '"Doe, \\"J\\", <b@bank.example>" <hello@shop.example>',
    'Shop (the one, of (many) \\) <b@bank.example>) <hello@shop.example>',
    'Bob 5" <hello@shop.example>',
    'DOMAIN\\bob <hello@shop.example>',
    'Smile :) <hello@shop.example>'
  ]
  for (const value of one) t.equal(mailboxesIn(value), 1, value)
  const two = [
    'hello@shop.example, boss@bank.example',
    'hello@shop.example (") , boss@bank.example (")',
    'hello@shop.example " , boss@bank.example',
    'hello@shop.example ( , boss@bank.example',
    'hello@shop.example \\"a" , boss@bank.example "b',
    'a: hello@shop.example; boss@bank.example',
    '<hello@shop.example> <boss@bank.example>'
  ]
  for (const value of two) {
    t.equal(mailboxesIn(value), 2, value)
    await t.rejects(read([`From: ${value}`]), {
      message: '5.6.0 The message must have one From field with one address'
    })
    await t.rejects(read([FROM, `Sender: ${value}`]), {
      message: '5.6.0 The message must have at most one Sender field, with one address'
    })
  }
  await t.rejects(read([FROM, 'Sender: hello@shop.example', 'Sender: boss@bank.example']), {
    message: '5.6.0 The message must have at most one Sender field, with one address'
  })
  t.match(await read([FROM, `Sender: ${one[1]}`]), { sender: 'hello@shop.example' })
  t.match(await read([FROM]), { sender: null })
})

t.test('two million quotes that end nothing are looked at once each', async t => {
  t.equal(mailboxesIn(`"${'\\"'.repeat(2_000_000)}, <a@shop.example>`), 2)
})

t.test('what names a sender that nobody has checked, or commands a mail server, is not passed on', async t => {
  const foreign = [
    'Resent-From: boss@bank.example',
    'Resent-Sender: boss@bank.example',
    'RESENT-BCC: eve@example.net',
    'X-Virtual-MTA: fast',
    'X-MS-Exchange-Organization-SCL: -1',
    'X-PM-Message-Stream: broadcast'
  ]
  const { drafts: [draft] } = await read([FROM, ...foreign, 'X-Order: 77'])
  t.equal(draft!.whole!.head, `${FROM}\r\nX-Order: 77\r\nSubject: Hi\r\n`)
})

t.test('the same mail made again has the same essence, and each other mail another one', async t => {
  const later = (day: number) => `X-Jetpost-Scheduled-At: 2099-01-0${day}T00:00:00Z`
  const template = (id: string, name: string) => [
    `X-Jetpost-Template: ${id}`,
    `X-Jetpost-Variables: {"name":"${name}"}`
  ]
  const withFile = (boundary: string, name: string, type: string, content: string) =>
    [
      `--${boundary}`,
      'Content-Type: text/plain',
      '',
      'Hello',
      `--${boundary}`,
      `Content-Type: ${type}`,
      `Content-Disposition: attachment; filename=${name}`,
      '',
      content,
      `--${boundary}--`
    ].join('\r\n')
  const ofFile = async (boundary: string, name = 'a.pdf', type = 'application/pdf', content = 'x') =>
    await read(
      [FROM, `Message-ID: <${boundary}@client>`, `Content-Type: multipart/mixed; boundary=${boundary}`],
      ['ada@example.net'],
      withFile(boundary, name, type, content)
    )
  const same = [
    [
      read([FROM], ['ada@example.net', 'bob@example.net']),
      read([FROM, 'Date: now'], ['bob@example.net', 'ada@example.net'])
    ],
    [ofFile('one'), ofFile('two')],
    [read([FROM, ...template('tpl_a', 'Ada')]), read([FROM, 'Message-ID: <1@client>', ...template('tpl_a', 'Ada')])]
  ]
  for (const [one, again] of same) t.equal((await one)!.essence(), (await again)!.essence())
  const different = [
    read([FROM]),
    read([FROM], ['bob@example.net']),
    read([FROM, later(1)]),
    read([FROM, later(2)]),
    read([FROM, ...template('tpl_a', 'Ada')]),
    read([FROM, ...template('tpl_a', 'Bob')]),
    read([FROM, ...template('tpl_b', 'Ada')]),
    ofFile('one'),
    ofFile('one', 'b.pdf'),
    ofFile('one', 'a.pdf', 'image/png'),
    ofFile('one', 'a.pdf', 'application/pdf', 'xx')
  ]
  const essences = await Promise.all(different.map(async mail => (await mail).essence()))
  t.equal(new Set(essences).size, different.length)
})
