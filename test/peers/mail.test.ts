import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { choosePort } from '#src/embedded/ports.ts'
import { eximMissing, startExim } from '../support/exim.ts'
import { startTestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { postfixMissing, startPostfix } from '../support/postfix.ts'

const PYTHON = '/usr/bin/python3'
/** Within the sending domain, as a verified domain's return path is. */
const BOUNCES = 'bounces.example.org'
const folder = mkdtempSync(join(tmpdir(), 'jetpost-peers-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const missing = (tool: string, path: string): string | false => (existsSync(path) ? false : `${tool} is not installed`)
const dkimpyMissing = ():
  | string
  | false => (spawnSync(PYTHON, ['-c', 'import dkim, nacl']).status === 0 ? false : 'dkimpy is not installed')

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const LONG =
  'A line of text that goes on and on without ever coming to its end, as lines do in mails that programs write. '
    .repeat(50)
const PARAGRAPHS = '<p>Thank you for your order. We have packed it, and it leaves our app tomorrow morning. You can ' +
  'follow it on its way.</p>'

/** One of each shape. */
const SHAPES: Record<string, Record<string, unknown>> = {
  'html alone': { html: '<p>Dear Ada, your order has left our app this morning and will be with you tomorrow.</p>' },
  'html and text': {
    html: `<html><body>${PARAGRAPHS}<p><a href="https://shop.example.org/orders/7">Your order</a></p></body></html>`,
    text: 'Thank you for your order. It leaves our app tomorrow morning.'
  },
  'text alone': { html: undefined, text: 'Dear Ada,\n\nyour order has left our app.\n\n-- \nThe shop' },
  'subject and names beyond ASCII': {
    from: 'Grüße <news@example.org>',
    to: 'Äda Löv <ada@peer.test>',
    subject: 'Grüße aus Köln – 你好 🎉',
    html: '<p>Grüße aus Köln, 你好 🎉</p>'
  },
  'a long line, lines of dots': { html: undefined, text: `${LONG}\n.\n..\n.dot\n\tTab \n` },
  'a page of 240 kB': { html: `<html><body>${PARAGRAPHS.repeat(1900)}</body></html>` },
  'a file with a name beyond ASCII': {
    attachments: [{
      filename: 'Rechnung Märä.pdf',
      content: Buffer.from('%PDF-1.4 an invoice').toString('base64'),
      content_type: 'application/pdf'
    }]
  },
  'an image in the text': {
    html: '<p>Look: <img src="cid:pic" alt="a dot"> That is all we wanted to show you today.</p>',
    attachments: [{ filename: 'p.png', content: PIXEL, content_type: 'image/png', content_id: 'pic' }]
  },
  'cc, answers, own headers': {
    cc: ['Bob <bob@peer.test>'],
    reply_to: 'help@example.org',
    headers: { 'X-Order': '7', 'In-Reply-To': '<1@example.org>' }
  },
  'without tracking and unsubscribing': { track: { opens: false, clicks: false }, unsubscribe: false }
}

t.test('mail of every shape, as real servers and checkers take it', { skip: postfixMissing() }, async t => {
  const inboundPort = await choosePort(null, null, 'inbound')
  const postfix = await startPostfix(t, { bounces: { domain: BOUNCES, port: inboundPort }, users: ['ada', 'bob'] })
  const hooks = await startHookSink()
  t.teardown(() => hooks.stop())
  const env = {
    SMTP_URL: `smtp://127.0.0.1:${postfix.port}`,
    JETPOST_INBOUND_PORT: String(inboundPort),
    JETPOST_BOUNCE_DOMAIN: BOUNCES,
    JETPOST_TRACKING_URL: 'https://t.example.org',
    JETPOST_HOSTNAME: 'sender.example.org'
  }
  const app = await startTestApp(t, { env })
  const { body: domain } = await app.request('POST', '/api/domains', { body: { name: 'example.org' } })
  await app.request('POST', '/api/webhooks', { body: { url: hooks.url, events: ['email.bounced'] } })
  const keys = domain.records.filter((record: { purpose: string }) => record.purpose === 'dkim').map((
    record: { name: string, value: string }
  ) => `${record.name} ${record.value}\n`)
  writeFileSync(join(folder, 'keys'), keys.join(''))
  const plain = {
    from: 'The shop <news@example.org>',
    to: 'Ada <ada@peer.test>',
    subject: 'Your order has left our app',
    html: PARAGRAPHS
  }

  const ids: string[] = []
  for (const [name, fields] of Object.entries(SHAPES)) {
    const { status, body } = await app.send({ ...plain, ...fields })
    t.equal(status, 202, name)
    ids.push(body.id)
  }
  for (const id of ids) await app.settled(id, 'delivered')
  const mails = await postfix.filed('ada', ids.length)
  const files = mails.map((mail, i) => {
    // virtual(8) writes the envelope on top and bare line feeds; checkers read it as it was.
    const raw = Buffer.from(mail.toString('latin1').replaceAll(/\r?\n/g, '\r\n'), 'latin1')
    const path = join(folder, `${i}.eml`)
    writeFileSync(path, raw)
    return path
  })

  await t.test('each has arrived once, under a return path of its own', async t => {
    t.equal(mails.length, ids.length)
    const paths = mails.map(mail => /^Return-Path: <(b\+\w+@bounces\.example\.org)>/m.exec(mail.toString())?.[1])
    t.equal(new Set(paths).size, ids.length)
    t.notOk(paths.includes(undefined))
  })

  await t.test('one click: an https address and the Post header, both signed', async t => {
    const clickable = mails.filter(mail =>
      /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r?$/m.test(mail.toString())
    )
    t.equal(clickable.length, ids.length - 1)
    for (const mail of clickable) {
      const text = mail.toString().replaceAll(/\r?\n(?=[ \t])/g, '')
      t.match(
        text,
        /^List-Unsubscribe: <https:\/\/t\.example\.org\/u\/\w+>, <mailto:u\+\w+@bounces\.[\w.]+\?subject=\w+>\r?$/m
      )
      for (const [, list] of text.matchAll(/^DKIM-Signature: .*?\bh=([^;]*);/gm)) {
        const names = list!.toLowerCase().split(':')
        t.ok(names.includes('list-unsubscribe') && names.includes('list-unsubscribe-post'))
      }
    }
  })

  await t.test('dkimpy: both signatures hold', { skip: dkimpyMissing() }, async t => {
    const { stdout } = await promisify(execFile)(PYTHON, [
      join(import.meta.dirname, 'verify.py'),
      join(folder, 'keys'),
      ...files
    ])
    for (const line of stdout.trim().split('\n')) {
      const { path, signatures } = JSON.parse(line)
      t.strictSame(signatures, [{ algorithm: 'rsa-sha256', passed: true }, {
        algorithm: 'ed25519-sha256',
        passed: true
      }], path)
    }
  })

  await t.test('OpenDKIM: both signatures hold', { skip: missing('OpenDKIM', '/usr/sbin/opendkim') }, async t => {
    const settings = join(folder, 'opendkim.conf')
    writeFileSync(settings, `Mode v\nTestDNSData ${join(folder, 'keys')}\nSyslog no\n`)
    for (const file of files) {
      const { stdout } = await promisify(execFile)('/usr/sbin/opendkim', ['-x', settings, '-t', file, '-vv'])
      t.equal([...stdout.matchAll(/dkim=pass /g)].length, 2, file)
      t.notMatch(stdout, 'dkim=fail')
    }
  })

  await t.test(
    'SpamAssassin takes none for spam',
    { skip: missing('SpamAssassin', '/usr/bin/spamassassin') },
    async t => {
      const { stdout } = await promisify(execFile)('/usr/bin/spamassassin', ['-L', '-t', ...files], {
        maxBuffer: 64 * 1024 * 1024
      })
      const verdicts = [...stdout.matchAll(/^X-Spam-Status: .*?score=(-?[\d.]+)[\s\S]*?tests=([\s\S]*?)autolearn/gm)]
      t.equal(verdicts.length, files.length)
      for (const [i, [, score, rules]] of verdicts.entries()) {
        t.ok(Number(score) <= 1.5, `${Object.keys(SHAPES)[i]}: ${score}, ${rules!.replaceAll(/\s+/g, '')}`)
      }
    }
  )

  await t.test("Postfix's own bounce comes back and becomes a webhook", async t => {
    const { body: { id } } = await app.send({ ...plain, to: 'nobody@peer.test' })
    const email = await app.settled(id, 'bounced')
    t.match(
      email.timeline.map(({ type }: { type: string }) => type),
      ['email.requested', 'email.attempted', 'email.delivered', 'email.bounced']
    )
    const event = (await hooks.waitFor(requests => requests.some(({ body }) => body.includes(id)))).map(({ body }) =>
      JSON.parse(body.toString())
    ).find(event => event.data.email_id === id)
    t.match(event, {
      type: 'email.bounced',
      data: {
        to: 'nobody@peer.test',
        bounce: { type: 'hard', class: 'userunknown', enhanced_code: '5.1.1', final: true }
      }
    })
  })
})

t.test("Exim's own bounce comes back and becomes a webhook", { skip: eximMissing() }, async t => {
  const inboundPort = await choosePort(null, null, 'inbound')
  const exim = await startExim(t, { domain: BOUNCES, port: inboundPort })
  const hooks = await startHookSink()
  t.teardown(() => hooks.stop())
  const app = await startTestApp(t, {
    env: {
      SMTP_URL: `smtp://127.0.0.1:${exim.port}`,
      JETPOST_INBOUND_PORT: String(inboundPort),
      JETPOST_BOUNCE_DOMAIN: BOUNCES
    }
  })
  await app.request('POST', '/api/webhooks', { body: { url: hooks.url, events: ['email.bounced'] } })
  const { body: { id } } = await app.send({ to: 'nobody@exim.test' })
  await app.settled(id, 'bounced').catch(error => {
    throw new Error(`${error.message}\n${exim.log()}`)
  })
  const [request] = await hooks.waitFor(requests => requests.length > 0)
  t.match(JSON.parse(request!.body.toString()), {
    type: 'email.bounced',
    data: { to: 'nobody@exim.test', bounce: { type: 'hard', class: 'userunknown', final: true } }
  })
})
