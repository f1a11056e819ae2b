import t from 'tap'
import { Refusal } from '#streams/define.ts'
import { testEventBody } from '#streams/delivery/test-event.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { privateTargets, targetFault } from '#src/actions/webhook.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { emptyDirectory, evolveDirectory, type WebhookEntry } from '#streams/directory.ts'
import { eventOf } from '#streams/email/event.ts'
import {
  countFault,
  decideChange,
  decideFailure,
  decideFinish,
  decideGone,
  decideReseal,
  decideRotation,
  decideSuccess,
  eventsFault,
  FAILING_MS_MAX,
  overlapOf,
  testFault,
  urlFault,
  WEBHOOKS_MAX,
  type WebhookChanges,
  type WebhookDecision
} from '#streams/webhook/decide.ts'
import { EVENT_TYPES, type EventType } from '#streams/webhook/facts.ts'
import { webhookEntry } from '../support/entries.ts'

t.test('a URL is absolute, https, and carries no credentials', async t => {
  for (
    const url of [
      'https://example.com',
      'https://example.com:8443/hooks?tenant=7#x',
      `https://example.com/${'a'.repeat(2028)}`
    ]
  ) t.equal(urlFault(url, false), null, url.slice(0, 50))
  for (
    const url of [
      '',
      'example.com',
      '/hooks',
      'ftp://example.com',
      'javascript:alert(1)',
      'file:///etc/passwd',
      'http://example.com',
      'https://',
      'https://user@example.com',
      'https://user:pw@example.com',
      'https://:pw@example.com',
      ' https://example.com',
      'https://example.com\n',
      `https://example.com/${'a'.repeat(2029)}`
    ]
  ) t.equal(urlFault(url, false)?.code, 'invalid_url', JSON.stringify(url.slice(0, 50)))
})

/** For the first account, by the setting. */
const faultWhere = (isAllowed: boolean, url: string, account = FIRST_ACCOUNT) =>
  targetFault({ mayCallPrivate: privateTargets(isAllowed) }, account, url)

t.test('an endpoint whose URL already says that it is private is refused when it is made', async t => {
  for (
    const host of [
      '127.0.0.1',
      '[::1]',
      '[::ffff:10.0.0.1]',
      '169.254.169.254',
      '0x7f.1',
      'localhost',
      'mail.internal',
      'localhost..'
    ]
  ) {
    t.equal(faultWhere(false, `https://${host}/`)?.code, 'invalid_url', host)
    t.equal(faultWhere(true, `https://${host}/`), null, host)
  }
  for (const host of ['8.8.8.8', '[2001:4860:4860::8888]', 'example.com']) {
    t.equal(faultWhere(false, `https://${host}/`), null, host)
  }
  t.equal(faultWhere(false, 'nonsense')?.code, 'invalid_url')
})

t.test('the operator can allow private targets for the first account alone, and its refusal says how', async t => {
  const refusals = [
    ['http://127.0.0.1:3000/', 'url must start with https://.', 'http and private addresses'],
    ['https://localhost/', 'url must be public: localhost is a name of private networks.', 'private ones']
  ] as const
  for (const [url, message, others] of refusals) {
    const how = `The operator can allow ${others}: JETPOST_WEBHOOK_ALLOW_PRIVATE=true.`
    t.equal(faultWhere(false, url)?.message, `${message} ${how}`)
    t.equal(faultWhere(true, url), null)
    for (const isAllowed of [false, true]) t.equal(faultWhere(isAllowed, url, 'acc_another')?.message, message)
  }
  t.equal(faultWhere(false, 'ftp://example.com')?.message, 'url must start with https://.')
})

t.test('http only where private targets are allowed', async t => {
  t.equal(urlFault('http://localhost:3000/hooks', true), null)
  t.equal(urlFault('https://example.com', true), null)
  for (const url of ['ftp://example.com', 'http://user@localhost']) t.equal(urlFault(url, true)?.code, 'invalid_url')
})

t.test('6.1 an endpoint subscribes to any subset of the types', async t => {
  t.equal(
    eventsFault([
      'email.delivered',
      'email.bounced',
      'email.opened',
      'email.clicked',
      'email.complained',
      'email.unsubscribed'
    ]),
    null
  )
  t.equal(eventsFault(['email.clicked']), null)
  for (const events of [[], ['email.sent'], ['email.clicked', 'email.clicked'], ['*']]) {
    t.equal(eventsFault(events)?.code, 'invalid_events', events.join())
  }
})

t.test('an account has a bounded number of endpoints', async t => {
  t.equal(countFault(WEBHOOKS_MAX - 1), null)
  t.equal(countFault(WEBHOOKS_MAX)?.code, 'too_many_webhooks')
})

const webhook = webhookEntry({ events: ['email.delivered', 'email.bounced'], sealedSecret: 'old' })
const NOW_MS = Date.parse('2026-01-02T00:00:00.000Z')
const DAY_MS = 86_400_000
const facts = (decided: WebhookDecision[] | Refusal) =>
  decided instanceof Refusal ? decided.code : decided.map(({ type, data }) => [type.name, data])

t.test('a change says all that may be changed as it is from now on', async t => {
  const { url, events } = webhook
  const before = {
    webhook: 'wh_1',
    url,
    events,
    paused: false,
    concurrency: null,
    batch: null,
    everyDeferral: false,
    bounces: 'all' as const,
    mode: 'both' as const
  }
  const batch = { maxEvents: 10, maxWaitMs: 500 }
  const changed = (from: WebhookEntry, changes: WebhookChanges) => facts(decideChange(from, changes))
  t.same(changed(webhook, { paused: true }), [['webhook.changed', { ...before, paused: true }]])
  t.same(changed(webhook, { concurrency: 3, events: ['email.clicked'] }), [['webhook.changed', {
    ...before,
    concurrency: 3,
    events: ['email.clicked']
  }]])
  t.same(changed({ ...webhook, concurrency: 3 }, { concurrency: null }), [['webhook.changed', before]])
  t.same(changed(webhook, { batch, everyDeferral: true }), [['webhook.changed', {
    ...before,
    batch,
    everyDeferral: true
  }]])
  t.same(changed({ ...webhook, batch }, { batch: { ...batch, maxWaitMs: 501 } }), [['webhook.changed', {
    ...before,
    batch: { maxEvents: 10, maxWaitMs: 501 }
  }]])
  t.same(changed({ ...webhook, batch }, { batch: null }), [['webhook.changed', before]])
  t.same(changed({ ...webhook, batch }, { batch: { ...batch } }), [], 'the same in another object')
})

t.test('the same said again makes no fact, nor does another order of events', async t => {
  const { url, paused, concurrency } = webhook
  t.same(decideChange(webhook, {}), [])
  t.same(
    decideChange(webhook, { url, paused, concurrency, events: ['email.bounced', 'email.delivered'], enabled: true }),
    []
  )
})

t.test('a disabled endpoint is enabled, with its new URL when there is one', async t => {
  const gone = { ...webhook, disabled: 'gone' }
  t.same(facts(decideChange(gone, { enabled: true })), [['webhook.enabled', { webhook: 'wh_1' }]])
  t.same(
    (facts(decideChange(gone, { url: 'https://example.org/', enabled: true })) as unknown[][]).map(([name]) => name),
    ['webhook.changed', 'webhook.enabled']
  )
  t.same((facts(decideChange(gone, { url: 'https://example.org/' })) as unknown[][]).map(([name]) => name), [
    'webhook.changed'
  ], 'only when asked for')
})

t.test('a rotation overlaps for 24 hours or until it is finished, and no second one begins meanwhile', async t => {
  t.same(facts(decideRotation(webhook, 'new', NOW_MS)), [['webhook.secret_rotated', {
    webhook: 'wh_1',
    sealedSecret: 'new',
    previousUntil: '2026-01-03T00:00:00.000Z'
  }]])
  const rotated = { ...webhook, sealedSecret: 'new', previous: { sealedSecret: 'old', untilMs: NOW_MS + DAY_MS } }
  t.equal(overlapOf(webhook, NOW_MS), null)
  t.equal(overlapOf(rotated, NOW_MS + DAY_MS - 1), rotated.previous)
  t.equal(overlapOf(rotated, NOW_MS + DAY_MS), null)
  t.equal(facts(decideRotation(rotated, 'newer', NOW_MS + DAY_MS - 1)), 'rotation_under_way')
  t.equal((facts(decideRotation(rotated, 'newer', NOW_MS + DAY_MS)) as unknown[]).length, 1)
  t.same(facts(decideFinish(rotated, NOW_MS)), [['webhook.rotation_finished', { webhook: 'wh_1' }]])
  t.equal(facts(decideFinish(rotated, NOW_MS + DAY_MS)), 'no_rotation')
  t.equal(facts(decideFinish(webhook, NOW_MS)), 'no_rotation')
})

t.test('the secrets that still sign are sealed again, and only where one was sealed with an older one', async t => {
  const reseal = (sealed: string) => (sealed.startsWith('old') ? `new${sealed.slice(3)}` : null)
  const previous = { sealedSecret: 'old 1', untilMs: NOW_MS + DAY_MS }
  const cases: Array<[before: Partial<WebhookEntry>, after: [string, string | null] | null]> = [
    [{ sealedSecret: 'new 2', previous: null }, null],
    [{ sealedSecret: 'old 2', previous: null }, ['new 2', null]],
    [{ sealedSecret: 'new 2', previous }, ['new 2', 'new 1']],
    [{ sealedSecret: 'old 2', previous }, ['new 2', 'new 1']],
    [{ sealedSecret: 'old 2', previous: { ...previous, sealedSecret: 'new 1' } }, ['new 2', 'new 1']],
    [{ sealedSecret: 'new 2', previous: { ...previous, untilMs: NOW_MS } }, null]
  ]
  for (const [before, after] of cases) {
    const entry = { ...webhook, ...before }
    const decided = decideReseal(entry, reseal, NOW_MS)
    if (after === null) t.same(decided, [])
    else {
      const [sealedSecret, previousSealedSecret] = after
      const data = { webhook: 'wh_1', sealedSecret, previousSealedSecret }
      t.same(facts(decided), [['webhook.secret_resealed', data]])
      const directory = emptyDirectory()
      directory.webhooks.set('wh_1', { ...entry })
      const fact = { id: 'ev_1', type: 'webhook.secret_resealed', version: 1, time: '', account: webhook.account, data }
      evolveDirectory(directory, { fact: fact as unknown as AnyFact, seq: 1, subject: 'x' })
      const folded = directory.webhooks.get('wh_1')!
      t.same([folded.sealedSecret, folded.previous?.sealedSecret ?? null], after)
      t.equal(folded.previous?.untilMs, entry.previous?.untilMs)
      t.same(decideReseal(folded, reseal, NOW_MS), [], 'once')
    }
  }
})

t.test('failure is recorded after a quarter of an hour and disables after five days; a success ends it', async t => {
  const minute = 60_000
  const at = (sinceMs: number, nowMs: number, from: Partial<WebhookEntry> = {}) =>
    facts(decideFailure({ ...webhook, ...from }, sinceMs, nowMs))
  t.same(at(NOW_MS, NOW_MS + 14 * minute), [])
  t.same(at(NOW_MS, NOW_MS + 15 * minute), [['webhook.failing', {
    webhook: 'wh_1',
    since: '2026-01-02T00:00:00.000Z'
  }]])
  t.same(
    at(NOW_MS - DAY_MS, NOW_MS + 14 * minute, { workedAt: '2026-01-02T00:00:00.000Z' }),
    [],
    'elsewhere it has worked since'
  )
  const failing = { failingSince: '2026-01-02T00:00:00.000Z' }
  t.same(at(NOW_MS, NOW_MS + FAILING_MS_MAX - 1, failing), [])
  t.same(at(NOW_MS, NOW_MS + FAILING_MS_MAX, failing), [['webhook.disabled', { webhook: 'wh_1', reason: 'failing' }]])
  t.same(at(NOW_MS, NOW_MS + FAILING_MS_MAX, { ...failing, disabled: 'gone' }), [])
  t.same(facts(decideSuccess({ ...webhook, ...failing })), [['webhook.recovered', { webhook: 'wh_1' }]])
  t.same(facts(decideSuccess(webhook)), [])
  t.same(facts(decideGone(webhook)), [['webhook.disabled', { webhook: 'wh_1', reason: 'gone' }]])
  t.same(facts(decideGone({ ...webhook, disabled: 'failing' })), [])
})

t.test('a failing endpoint starts again with another URL, and after a pause in which its owner fixed it', async t => {
  const after = (from: Partial<WebhookEntry>, changes: WebhookChanges): string | null => {
    const directory = emptyDirectory()
    const failing = { ...webhook, failingSince: '2026-01-02T00:00:00.000Z', ...from }
    directory.webhooks.set('wh_1', failing)
    for (const { type, data } of decideChange(failing, changes)) {
      const fact = {
        id: 'ev_1',
        type: type.name,
        version: 1,
        time: '2026-01-03T00:00:00.000Z',
        account: 'acc_1',
        causation: null,
        correlation: 'req_1',
        data
      }
      evolveDirectory(directory, { fact: fact as AnyFact, seq: 1, subject: '' })
    }
    return directory.webhooks.get('wh_1')!.failingSince
  }
  t.equal(after({}, { concurrency: 3 }), '2026-01-02T00:00:00.000Z')
  t.equal(after({}, { paused: true }), '2026-01-02T00:00:00.000Z')
  t.equal(after({ paused: true }, { paused: false }), null)
  t.equal(after({}, { url: 'https://example.com/new' }), null)
})

t.test('a test event goes where events go', async t => {
  t.equal(testFault(webhook), null)
  t.equal(testFault({ ...webhook, paused: true })?.code, 'webhook_paused')
  t.equal(testFault({ ...webhook, disabled: 'gone', paused: true })?.code, 'webhook_disabled')
})

t.test('6.2 a test event has the fields of its type, marked as a test', async t => {
  const of = (type: EventType) =>
    JSON.parse(testEventBody({ id: 'ev_1', type, createdAt: '2026-01-01T00:00:00.000Z', email: 'em_1' }))
  for (const type of EVENT_TYPES) {
    t.match(of(type), { id: 'ev_1', type, created_at: '2026-01-01T00:00:00.000Z' })
    t.match(of(type).data, {
      email_id: 'em_1',
      from: String,
      to: String,
      subject: String,
      tags: [],
      metadata: {},
      message_id: String,
      sequence: 1,
      test: true
    }, type)
  }
  t.type(of('email.delivered').data.smtp_response, 'string')
  t.type(of('email.clicked').data.click.url, 'string')
  const real = eventOf({
    type: 'email.bounced',
    data: {
      attempt: 1,
      host: 'mx',
      tls: null,
      via: 'mx',
      ms: 1,
      stage: 'rcpt',
      class: 'userunknown',
      reply: { code: 550, enhanced: '5.1.1', text: '550 no' },
      status: null,
      error: null,
      report: null
    }
  })!.extra
  t.same(Object.keys(of('email.bounced').data.bounce), Object.keys(real.bounce!), 'as a real bounce has them')
})
