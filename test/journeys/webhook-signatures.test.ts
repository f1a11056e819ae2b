import { verify } from '@octokit/webhooks-methods'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { Webhook, WebhookVerificationError } from 'standardwebhooks'
import t from 'tap'
import { stamp } from '#src/actions/fact-log.ts'
import { finishRotation, rotateSecret, testWebhook } from '#src/actions/webhook.ts'
import type { Handled } from '#src/actions/handle-command.ts'
import { newId } from '#src/base/id.ts'
import { signatureHeaders, signingKeys } from '#src/workers/webhooks/attempt.ts'
import { EmailDelivered } from '#streams/email/facts.ts'
import { Refusal } from '#streams/define.ts'
import { openHookRig } from '../support/hook-rig.ts'
import { startHookSink } from '../support/hook-sink.ts'

/** One with PyPI's standardwebhooks. */
const PYTHON = process.env.JETPOST_TEST_PYTHON ?? 'python3'

function pythonMissing (): string | false {
  // Where everything is installed on purpose, its absence is a fault.
  if (process.env.CI === 'true' || spawnSync(PYTHON, ['-c', 'import standardwebhooks']).status === 0) return false
  return 'no standardwebhooks: pip install -r test/peers/requirements.txt, and set JETPOST_TEST_PYTHON to that python'
}

interface Signed {
  body: Buffer
  headers: Record<string, string>
}

/** `plainBy` = the secret of X-Service-Signature; `listedBy` = those of webhook-signature; `never` = secrets of the
 *  same endpoint that sign no more, or not yet. */
interface Callback extends Signed {
  what: string
  plainBy: string
  listedBy: string[]
  never: string[]
}

const rig = await openHookRig(t)
const sink = await startHookSink()
t.teardown(() => sink.stop())
rig.start()

/** Puts an event with this very body into the log. */
async function happenWith (body: string): Promise<void> {
  const [email, id, nowMs] = [newId('em', Date.now()), newId('ev', Date.now()), Date.now()]
  const recipient = { email, n: 0, request: 1, to: 'ada@example.net', sequence: 1, event: body }
  const transaction = {
    attempt: 1,
    host: 'mx.example.net',
    tls: null,
    via: 'relay' as const,
    ms: 12,
    reply: { code: 250, enhanced: null, text: '250 ok' }
  }
  const fact = stamp(
    EmailDelivered,
    { account: rig.asker.account, correlation: 'req_test', causation: null },
    { ...recipient, ...transaction },
    nowMs,
    id
  )
  await rig.factLog.append([{ fact }])
}

/** What comes of it, as it comes in. */
async function arrives (happening: () => Promise<unknown>): Promise<Signed> {
  const before = sink.requests.length
  await happening()
  const { body, headers } = (await sink.waitFor(requests => requests.length > before))[before]!
  return { body, headers }
}

async function known<T extends Handled<'webhook'>> (change: Promise<T | Refusal>): Promise<T> {
  const changed = await change
  if (changed instanceof Refusal) throw new Error(changed.message)
  if (!await rig.directory.reached(changed.seq, 5000)) throw new Error('the directory did not see it')
  return changed
}

const { webhook: { id }, secret: first } = await rig.listen(sink.url)
const test = () => testWebhook(rig.services, rig.asker, id)
const ODD = {
  id: 'ev_odd',
  type: 'email.delivered',
  data: {
    subject: '你好 🎉 \u2028 e\u0301 "quoted" \\ </script> \u0000 ﷽',
    tags: ['Grüße'],
    metadata: { 'ключ': '値', n: 1e21 }
  }
}
const before = { plainBy: first, listedBy: [first], never: [] }
const callbacks: Callback[] = [
  { what: 'ASCII alone', ...await arrives(test), ...before },
  { what: 'beyond ASCII', ...await arrives(() => rig.happen('delivered')), ...before },
  { what: 'all kinds of characters', ...await arrives(() => happenWith(JSON.stringify(ODD))), ...before },
  {
    what: 'space that a parser would drop',
    ...await arrives(() => happenWith(`${JSON.stringify(ODD, null, '\t')}\r\n`)),
    ...before
  },
  {
    what: '200 kB',
    ...await arrives(() => happenWith(JSON.stringify({ ...ODD, long: 'ÄÖÜ'.repeat(33_000) }))),
    ...before
  }
]
const { secret: second } = await known(rotateSecret(rig.services, rig.asker, id))
callbacks.push({
  what: 'during a rotation',
  ...await arrives(() => rig.happen('delivered')),
  plainBy: first,
  listedBy: [second, first],
  never: []
})
await known(finishRotation(rig.services, rig.asker, id))
callbacks.push({
  what: 'after a rotation',
  ...await arrives(() => rig.happen('delivered')),
  plainBy: second,
  listedBy: [second],
  never: [first]
})

const { body, headers, plainBy: secret } = callbacks.at(-1)!
const stranger = (await rig.listen(`${sink.url}/other`, ['email.clicked'])).secret
const tampered = Buffer.from(body.toString().replace('ada@example.net', 'eve@example.net'))
/** Requests that nobody must take, each with the secret it is checked by. */
const FORGED: Array<[string, Signed & { secret: string }]> = [
  ['another body', { body: tampered, headers, secret }],
  ['one space more', { body: Buffer.concat([body, Buffer.from(' ')]), headers, secret }],
  ['the same in other bytes', {
    body: Buffer.from(JSON.stringify(JSON.parse(body.toString()), null, 1)),
    headers,
    secret
  }],
  ['half of it', { body: body.subarray(0, body.length / 2), headers, secret }],
  ["another endpoint's secret", { body, headers, secret: stranger }],
  ["another's signature", { body, headers: { ...headers, ...signed(stranger, body, headers['webhook-id']!) }, secret }],
  ['a signature of something else', {
    body,
    headers: { ...headers, ...signed(secret, tampered, headers['webhook-id']!) },
    secret
  }],
  ['half a signature', {
    body,
    headers: {
      ...headers,
      'x-service-signature': headers['x-service-signature']!.slice(0, 40),
      'webhook-signature': headers['webhook-signature']!.slice(0, 'v1,'.length + 20)
    },
    secret
  }]
]
/** The same, in what the spec's header does not bind. */
const FORGED_STANDARD: Array<[string, Signed & { secret: string }]> = [
  ['another id', { body, headers: { ...headers, 'webhook-id': 'ev_1' }, secret }],
  ['another time', {
    body,
    headers: { ...headers, 'webhook-timestamp': String(Number(headers['webhook-timestamp']) + 1) },
    secret
  }]
]
/** Signed by us as a whole, so that their time alone is wrong. */
const LATE = { body, headers: { ...headers, ...signed(secret, body, headers['webhook-id']!, -360) }, secret }
const EARLY = { body, headers: { ...headers, ...signed(secret, body, headers['webhook-id']!, 360) }, secret }
const IN_TIME = { body, headers: { ...headers, ...signed(secret, body, headers['webhook-id']!, -120) }, secret }

/** Headers by our own hand, `offS` seconds from now. */
function signed (by: string, text: Buffer, id: string, offS = 0): Record<string, string> {
  const all = signatureHeaders({
    keys: signingKeys(by),
    previous: null,
    id,
    timestampS: Math.floor(Date.now() / 1000) + offS,
    body: text
  })
  return Object.fromEntries(Object.entries(all).map(([name, value]) => [name.toLowerCase(), value]))
}

t.test('@octokit/webhooks-methods takes every X-Service-Signature with its secret, and nothing forged', async t => {
  for (const { what, body, headers, plainBy, listedBy, never } of callbacks) {
    const by = async (secret: string) => await verify(secret, body.toString(), headers['x-service-signature']!)
    t.equal(await by(plainBy), true, what)
    for (const other of [...listedBy.filter(secret => secret !== plainBy), ...never, stranger]) {
      t.equal(await by(other), false, `${what}, with another secret`)
    }
  }
  for (const [what, { body, headers, secret }] of FORGED) {
    t.equal(await verify(secret, body.toString(), headers['x-service-signature']!), false, what)
  }
})

t.test("npm's standardwebhooks takes every callback with each secret in force, and nothing forged or late", async t => {
  for (const { what, body, headers, listedBy, never } of callbacks) {
    for (const secret of listedBy) {
      t.strictSame(new Webhook(secret).verify(body.toString(), headers), JSON.parse(body.toString()), what)
    }
    for (const secret of [...never, stranger]) {
      t.throws(
        () => new Webhook(secret).verify(body.toString(), headers),
        WebhookVerificationError,
        `${what}, with another secret`
      )
    }
  }
  const refused = ({ body, headers, secret }: Signed & { secret: string }, what: string, why: RegExp) =>
    t.throws(() => new Webhook(secret).verify(body.toString(), headers), why, what)
  for (const [what, request] of [...FORGED, ...FORGED_STANDARD]) refused(request, what, /No matching signature/)
  t.ok(new Webhook(secret).verify(body.toString(), IN_TIME.headers))
  refused(LATE, 'too late', /too old/)
  refused(EARLY, 'too early', /too new/)
})

t.test("PyPI's standardwebhooks takes every callback with each secret in force, and nothing forged or late", {
  skip: pythonMissing()
}, async t => {
  const ask = (requests: Array<Signed & { secret: string }>): Array<{ event?: unknown, refused?: string }> => {
    const input = requests.map(({ body, headers, secret }) =>
      `${JSON.stringify({ body: body.toString('base64'), headers, secret })}\n`
    ).join('')
    const { status, stdout, stderr } = spawnSync(PYTHON, [
      join(import.meta.dirname, '..', 'peers', 'webhook_signatures.py')
    ], { input, encoding: 'utf8', timeout: 60_000, maxBuffer: 16 * 1024 * 1024 })
    if (status !== 0) throw new Error(stderr)
    const answers = stdout.trim().split('\n').map(line => JSON.parse(line))
    if (answers.length !== requests.length) throw new Error(`${answers.length} of ${requests.length} answers`)
    return answers
  }
  const good = callbacks.flatMap(callback => callback.listedBy.map(secret => ({ ...callback, secret })))
  for (const [i, { event }] of ask(good).entries()) {
    t.strictSame(event, JSON.parse(good[i]!.body.toString()), good[i]!.what)
  }
  const strange = callbacks.flatMap(callback => [...callback.never, stranger].map(secret => ({ ...callback, secret })))
  for (const [i, answer] of ask(strange).entries()) {
    t.match(answer, { refused: 'No matching signature found' }, `${strange[i]!.what}, with another secret`)
  }
  const forged = [...FORGED, ...FORGED_STANDARD]
  for (const [i, answer] of ask(forged.map(([, request]) => request)).entries()) {
    t.match(answer, { refused: 'No matching signature found' }, forged[i]![0])
  }
  t.match(ask([IN_TIME, LATE, EARLY]), [{ event: {} }, { refused: /too old/ }, { refused: /too new/ }])
})
