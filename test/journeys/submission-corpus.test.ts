import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import t from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'
import { startSink } from '../support/smtp-sink.ts'
import { corpus, type Sample } from '../support/submission-corpus.ts'
import { logIn, stuffed } from '../support/submission-peer.ts'
import { until } from '../support/wait.ts'

const mail = await startSink()
t.teardown(() => mail.stop())
const app = await startTestApp(t, {
  env: {
    SMTP_URL: mail.url,
    JETPOST_DOMAINS: 'shop.example',
    JETPOST_SUBMISSION_PORT: '0',
    JETPOST_BOUNCE_DOMAIN: 'bounces.example'
  }
})

/** What Jetpost writes into every message. */
const OURS = ['message-id', 'feedback-id', 'cfbl-address', 'cfbl-feedback-id']

interface Halves {
  fields: string[]
  body: Buffer
}

function halves (raw: Buffer): Halves {
  const end = raw.indexOf('\r\n\r\n')
  return { fields: raw.toString('latin1', 0, end).split(/\r\n(?![ \t])/), body: raw.subarray(end + 4) }
}

const nameOf = (field: string) => field.slice(0, field.indexOf(':')).trim().toLowerCase()

/** Which fields went and which came, a field that changed being both. */
function difference (sent: Halves, arrived: Halves): { gone: string[], came: string[] } {
  const left = [...arrived.fields]
  const gone = sent.fields.filter(field => {
    const at = left.indexOf(field)
    if (at !== -1) left.splice(at, 1)
    return at === -1
  })
  return { gone: gone.map(nameOf), came: left.map(nameOf) }
}

function expected ({ fields }: Halves, { gone = [], own = [], otherwise = [] }: Sample) {
  const names = fields.map(nameOf)
  const replaced = ['message-id', 'cfbl-address'].filter(name => names.includes(name))
  const added = OURS.filter(name => !own.includes(name))
  return {
    gone: [...gone, ...replaced, ...otherwise].sort(),
    came: [...added, 'dkim-signature', 'dkim-signature', ...(names.includes('date') ? [] : ['date']), ...otherwise]
      .sort()
  }
}

async function hand (made: Sample, to: string): Promise<string> {
  const peer = await logIn(app.submissionPort!, API_KEY)
  const { from = 'hello@shop.example', more = [], utf8 = false, raw } = made
  for (
    const line of [
      `MAIL FROM:<${from}>${utf8 ? ' SMTPUTF8' : ''}`,
      ...[to, ...more].map(one => `RCPT TO:<${one}>`)
    ]
  ) {
    t.match(await peer.say(line), /^250/, line)
  }
  await peer.say('DATA')
  peer.socket.write(stuffed(raw))
  const reply = await peer.say('.')
  peer.close()
  return reply
}

const { body: domains } = await app.request('GET', '/api/domains')
const records = domains.data.find(({ name }: { name: string }) => name === 'shop.example').records as Array<
  { type: string, name: string, value: string }
>
const resolver = async (name: string): Promise<string[][]> => {
  const found = records.filter(record => record.type === 'TXT' && record.name === name)
  if (found.length === 0) throw Object.assign(new Error('none'), { code: 'ENOTFOUND' })
  return found.map(({ value }) => [value])
}

const table: string[] = []

for (const [n, [what, make]] of Object.entries(corpus).entries()) {
  t.test(`${what}: arrives as it was sent, but for the fields that are ours`, async t => {
    const made = make()
    const to = `corpus${n}@example.net`
    const reply = await hand(made, to)
    t.match(reply, /^250 2\.0\.0 queued as em_/)
    const all = [to, ...made.more ?? []]
    await until(() => all.every(address => mail.received.some(one => one.to === address && one.accepted)))
    const sent = halves(made.raw)
    for (const address of all.slice(0, 3)) {
      const { raw, commands } = mail.received.findLast(one => one.to === address)!
      const arrived = halves(raw)
      const found = difference(sent, arrived)
      const sorted = { gone: found.gone.sort(), came: found.came.sort() }
      t.strictSame(sorted, expected(sent, made), address)
      t.ok(arrived.body.equals(sent.body), 'every byte of the body')
      const kept = sent.fields.filter(field => arrived.fields.includes(field))
      t.strictSame(arrived.fields.filter(field => kept.includes(field)), kept, 'and the order of the fields')
      t.equal(commands[0]!.includes('SMTPUTF8'), made.utf8 === true || made.otherwise !== undefined)
      const { results } = await dkimVerify(raw, { resolver } as Parameters<typeof dkimVerify>[1])
      t.strictSame(results.map(({ status }) => status.result), ['pass', 'pass'], 'signed twice')
    }
    const { gone, came } = difference(sent, halves(mail.received.findLast(one => one.to === to)!.raw))
    table.push(`${what} | gone: ${gone.join(' ')} | came: ${came.join(' ')}`)
  })
}

t.test('what is shown of them', async t => {
  const { body } = await app.request('GET', '/api/emails?limit=100')
  const named = async (to: string) => {
    const { id } = body.data.find((email: { bcc: string[] }) => email.bcc.includes(to))
    return {
      email: (await app.request('GET', `/api/emails/${id}`)).body,
      content: (await app.request('GET', `/api/emails/${id}/content`)).body
    }
  }
  const at = (what: string) => `corpus${Object.keys(corpus).indexOf(what)}@example.net`
  const mixed = await named(at('mixed, related, alternative'))
  t.match(mixed.content, {
    text: 'Hello Ada',
    html: '<p>Hello ✓ <a href="https://shop.example/a?b=1&amp;c=2">Shop</a></p><img src="cid:logo@shop">'
  })
  const files = [
    { filename: 'logo.png', content_type: 'image/png', content_id: 'logo@shop', size_bytes: 70 },
    { filename: 'Rechnung für Ada.pdf', content_type: 'application/pdf', content_id: null, size_bytes: 15 }
  ]
  t.strictSame(mixed.email.attachments, files)
  t.strictSame(mixed.content.attachments, files)
  t.match((await named(at('an invitation'))).content, {
    alternatives: [{ content_type: 'text/calendar; method=REQUEST', content: /^BEGIN:VCALENDAR/ }]
  })
  t.match((await named(at('8-bit Latin-1'))).content, { text: /^Grüße/ })
  t.match((await named(at('commands'))).email, {
    tags: ['a', 'b', 'c', 'd', 'e'],
    metadata: {
      f: 'g',
      order: '77',
      color: 'blue',
      a: 'b',
      campaign: 'spring',
      audience: 'all',
      n: 1,
      o: '{"p":2}'
    }
  })
  const crowd = body.data.filter((email: { cc: string[], bcc: string[] }) =>
    [...email.cc, ...email.bcc].some(address => address.startsWith('crowd'))
  )
  t.equal(crowd.length, 2, '100 recipients are two emails')
})

t.teardown(() => {
  if (process.env.JETPOST_TEST_TABLE !== undefined) process.stderr.write(`${table.join('\n')}\n`)
})
