import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { deadline } from '#src/base/errors.ts'
import t from 'tap'
import { COMPILED } from '../support/compiled.ts'
import { readMessage } from '../support/mime-reader.ts'

const BIN = fileURLToPath(new URL('../../src/bin.js', import.meta.url))
const base64 = (text: string) => Buffer.from(text).toString('base64')

const child = spawn(process.execPath, [BIN, 'explain', '--jsonl'], {
  stdio: ['pipe', 'pipe', 'inherit'],
  env: { ...process.env, ...COMPILED }
})
const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
t.teardown(() => void child.kill())

async function ask (line: unknown): Promise<any> {
  child.stdin.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
  return JSON.parse((await deadline(answers.next(), 20_000, 'no answer')).value!)
}

const DSN = [
  'From: MAILER-DAEMON@mx.example.net',
  'To: b+x@bounces.example',
  'Subject: Undelivered',
  'MIME-Version: 1.0',
  'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
  '',
  '--b',
  'Content-Type: text/plain',
  '',
  'Sorry.',
  '',
  '--b',
  'Content-Type: message/delivery-status',
  '',
  'Reporting-MTA: dns; mx.example.net',
  '',
  'Final-Recipient: rfc822; ada@example.net',
  'Action: failed',
  'Status: 5.1.1',
  'Diagnostic-Code: smtp; 550 5.1.1 User unknown',
  '',
  '--b--',
  ''
].join('\r\n')

t.test('bounce: what a mail that came back says of whom', async t => {
  t.match(await ask({ op: 'bounce', id: 1, raw: base64(DSN) }), {
    id: 1,
    kind: 'hard',
    recipients: [{ address: 'ada@example.net', kind: 'hard', status: '5.1.1', reason: 'userunknown' }]
  })
  t.match(
    await ask({ op: 'bounce', id: 2, raw: base64('From: ada@example.net\r\nSubject: Lunch?\r\n\r\nAt one?\r\n') }),
    { id: 2, kind: 'none', recipients: [] }
  )
  t.match(await ask({ op: 'bounce', id: 3, raw: '' }), { id: 3, kind: 'none', recipients: [] })
})

t.test('reply: class, and what follows from it', async t => {
  t.strictSame(await ask({ op: 'reply', id: 'a', reply: '550 5.1.1 <ada@example.net>: User unknown', stage: 'rcpt' }), {
    id: 'a',
    kind: 'hard',
    class: 'userunknown',
    status: '5.1.1',
    retry: false,
    suppress: true
  })
  t.strictSame(await ask({ op: 'reply', id: 'b', reply: '452 4.2.2 Mailbox full', stage: 'rcpt' }), {
    id: 'b',
    kind: 'soft',
    class: 'mailboxfull',
    status: '4.2.2',
    retry: true,
    suppress: false
  })
  t.match(await ask({ op: 'reply', id: 'c', reply: '554 5.7.1 blocked using zen.spamhaus.org', stage: 'connect' }), {
    kind: 'soft',
    class: 'blocked',
    retry: true,
    suppress: false
  })
})

t.test('track: links and pixel, nothing else changed', async t => {
  const html = '<p>A <a href="https://a.example/">a</a> <a href="mailto:x@y.z">m</a> ' +
    '<a href="https://b.example/" data-no-track>b</a></p>'
  const answer = await ask({ op: 'track', id: 4, html, base: 'https://t.example' })
  t.same(answer.links, [{ url: 'https://a.example/', tracked: true }, { url: 'mailto:x@y.z', tracked: false }, {
    url: 'https://b.example/',
    tracked: false
  }])
  t.equal(answer.html.replace(/https:\/\/t\.example\/c\/[\w-]+/, 'https://a.example/').replace(/<img [^>]*>/, ''), html)
})

t.test('render, address, webhook-url', async t => {
  t.strictSame(
    await ask({ op: 'render', id: 5, template: 'Hi {{name}}{{>p}}', data: { name: '<b>' }, partials: { p: '!' } }),
    { id: 5, text: 'Hi &lt;b&gt;!' }
  )
  t.strictSame(await ask({ op: 'address', id: 6, address: 'ada@example.net' }), { id: 6, ok: true })
  t.strictSame(await ask({ op: 'address', id: 7, address: 'a b@example.net' }), { id: 7, ok: false })
  t.strictSame(await ask({ op: 'webhook-url', id: 8, url: 'https://8.8.8.8/hook' }), { id: 8, ok: true, reason: null })
  for (
    const url of [
      'http://8.8.8.8/',
      'https://127.0.0.1/',
      'https://[::ffff:10.0.0.1]/',
      'https://0x7f.1/',
      'https://localhost/',
      'https://x.internal/',
      'https://u:p@8.8.8.8/',
      'nonsense'
    ]
  ) {
    t.match(await ask({ op: 'webhook-url', id: url, url }), { id: url, ok: false, reason: /./ })
  }
})

t.test('mime: the message that would go out', async t => {
  const { raw } = await ask({
    op: 'mime',
    id: 9,
    from: 'Ada <ada@example.com>',
    to: ['bob@example.net'],
    subject: 'Grüße',
    html: '<p>Hi</p>'
  })
  const message = readMessage(Buffer.from(raw, 'base64'))
  t.equal(message.type, 'multipart/alternative')
  t.match(message.headers.find(({ name }) => name === 'From'), { value: 'Ada <ada@example.com>' })
  t.match(await ask({ op: 'mime', id: 10, from: 'x', to: 'bob@example.net', subjct: 'Hi' }), { id: 10, error: /from/ })
})

t.test('what is no input is answered, and the next one too', async t => {
  t.match(await ask('{'), { id: null, error: String })
  t.match(await ask('[]'), { id: null, error: String })
  t.match(await ask({ op: 'constructor', id: 11 }), { id: 11, error: /op is one of/ })
  t.match(await ask({ op: 'bounce', id: 12, raw: 5 }), { id: 12, error: 'raw is a string' })
  t.match(await ask({ op: 'reply', id: 13, reply: '550 no', stage: 'lunch' }), { id: 13, error: /stage/ })
  t.match(await ask({ op: 'render', id: 14, template: '{{#a}}' }), { id: 14, error: String })
  t.match(await ask({ op: 'address', id: 15, address: 'ada@example.net' }), { id: 15, ok: true })
})

t.test('it ends with its input', async t => {
  child.stdin.end()
  await once(child, 'exit')
  t.equal(child.exitCode, 0)
})

/** One run of the shell with this on standard input. */
async function shell (
  args: string[],
  input: string | Buffer = '',
  env: Record<string, string> = {}
): Promise<{ code: number | null, out: string, err: string }> {
  const run = spawn(process.execPath, [BIN, 'explain', ...args], {
    stdio: 'pipe',
    env: { ...process.env, ...COMPILED, ...env }
  })
  const text = async (stream: AsyncIterable<Buffer>) => {
    const parts: Buffer[] = []
    for await (const part of stream) parts.push(part)
    return Buffer.concat(parts).toString()
  }
  run.stdin.on('error', () => {}).end(input)
  const [out, err] = await deadline(Promise.all([text(run.stdout), text(run.stderr)]), 30_000, 'no answer')
  if (run.exitCode === null) await once(run, 'exit')
  return { code: run.exitCode, out, err }
}

t.test('every line is answered, also when all come at once and somebody reads slowly', async t => {
  const lines = Array.from(
    { length: 900 },
    (_, id) =>
      `${JSON.stringify({ op: 'track', id, html: '<p>x\u2028y</p>'.repeat(20), base: 'https://t.example/' })}\n`
  )
  const { out, code } = await shell(['--jsonl'], lines.join(''))
  t.strictSame(out.trim().split('\n').map(line => JSON.parse(line).id), lines.map((_line, id) => id))
  t.equal(code, 0)
})

t.test('the shell reads an argument or standard input, in any script, and names a fault in a sentence', async t => {
  t.match(JSON.parse((await shell(['address', '用户@例え.jp'])).out), { ok: true })
  t.match(JSON.parse((await shell(['render', 'héllo ✓ {{a}}', '--data', '{"a":"ü"}'])).out), { text: 'héllo ✓ ü' })
  t.match(JSON.parse((await shell(['bounce'], DSN)).out), { kind: 'hard' })
  t.match(JSON.parse((await shell(['reply', '-'], '550 5.1.1 User unknown\r\n')).out), { class: 'userunknown' })
  t.match(await shell(['bounce', './mail.eml']), { code: 2, err: /< mail\.eml/ })
  for (const args of [['mime', '{bad'], ['render', 'x', '--data', '{bad']]) {
    t.match(await shell(args), { code: 1, out: /"error": "not JSON"/, err: '' })
  }
  t.match(await shell(['mime', '{}'], '', { PORT: 'abc' }), { code: 1, err: /PORT must be/ })
})

t.test('a link that is too long to be wrapped is said to be left alone', async t => {
  const html = `<a href="https://a.example/${'x'.repeat(5000)}">a</a>`
  const { out } = await shell(['track'], html)
  t.match(JSON.parse(out), { links: [{ tracked: false }] })
})
