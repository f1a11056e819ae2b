import t from 'tap'
import {
  decideAccountChange,
  decideResumption,
  decideSuspension,
  suspensionFor,
  type SuspensionRates
} from '#streams/account/decide.ts'
import { AccountCreated, FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { checkFact, type AnyFact } from '#streams/catalog.ts'
import { Refusal, type Unstamped } from '#streams/define.ts'
import {
  domainKey,
  emptyDirectory,
  entitiesOf,
  evolveDirectory,
  evolveEntity,
  type AccountEntry,
  type Entities
} from '#streams/directory.ts'
import {
  addFault,
  decideAdd,
  decideChange as decideDomainChange,
  decideCheck,
  decideRemoval,
  decideRotation as decideDomainRotation,
  isProvenByAnother
} from '#streams/domain/decide.ts'
import { DomainAdded, type DkimKey } from '#streams/domain/facts.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import {
  decideChange as decideKeyChange,
  decideLimits,
  decideRotation as decideKeyRotation,
  FIXED_KEY,
  limitsFault
} from '#streams/key/decide.ts'
import { KeyCreated, KeyRevoked } from '#streams/key/facts.ts'
import { decideChange, decideDelete, decideFinish, decideRotation } from '#streams/webhook/decide.ts'
import { WebhookCreated } from '#streams/webhook/facts.ts'
import { stamp } from '#src/actions/fact-log.ts'

const NOW_MS = Date.parse('2026-11-21T10:00:00.000Z')
const TIME = '2026-11-21T10:00:00.000Z'
const DAY_MS = 86_400_000
const CAUSE = { account: 'acc_one', correlation: 'test', causation: null }

function stamped (decided: Unstamped[] | Refusal, nowMs = NOW_MS): AnyFact[] {
  if (decided instanceof Refusal) throw new Error(decided.code)
  return decided.map(({ type, data }) => checkFact(stamp(type, CAUSE, data, nowMs)))
}

/** Every change of it, or of what it holds, throws. */
function frozen<T> (value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen)
  return value
}

/** What commands make of an entity, one after the other: each by its own fold, and by the directory's at the end. */
function follow<Kind extends keyof Entities> (kind: Kind, id: string, first: AnyFact) {
  const past: AnyFact[] = [first]
  let now = frozen(evolveEntity(kind, id, undefined, past))
  return {
    after (decide: (entity: Entities[Kind]) => Unstamped[] | Refusal, nowMs = NOW_MS): Entities[Kind] | undefined {
      const facts = stamped(decide(now!), nowMs)
      past.push(...facts)
      now = frozen(evolveEntity(kind, id, now, facts))
      const directory = emptyDirectory()
      for (const [i, fact] of past.entries()) evolveDirectory(directory, { fact, seq: i + 1, subject: '' })
      t.strictSame(now, entitiesOf(directory, kind).get(id))
      return now
    },
    now: () => now
  }
}

const KEY = { name: 'One', hash: 'a', hint: 'jp_live_1234…', test: false, scopes: ['full' as const], domains: ['*'] }
const keyOf = (id: string) =>
  stamp(KeyCreated, CAUSE, { key: id, ...KEY, hash: 'a'.repeat(64), expiresAt: null, defaults: NO_DEFAULTS }, NOW_MS)

t.test('an account after each command is what the directory makes of its facts', async t => {
  const cause = { ...CAUSE, account: 'acc_one' }
  const account = follow(
    'account',
    'acc_one',
    stamp(AccountCreated, cause, { account: 'acc_one', name: 'One' }, NOW_MS)
  )
  const complaints = (note: string | null) => (now: AccountEntry) => decideSuspension(now, 'complaints', note)
  t.match(account.now(), { suspended: null, limits: {} })
  t.match(account.after(now => decideAccountChange(now, { limits: { other: 7 } })), { limits: { other: 7 } })
  t.match(account.after(now => decideAccountChange(now, { recipientsPerDay: 5 })), { recipientsPerDay: 5 })
  t.same(decideAccountChange(account.now()!, { limits: { other: 7 }, recipientsPerDay: 5 }), [], 'it is so already')
  t.match(account.after(complaints('0.4 %')), { suspended: { reason: 'complaints', note: '0.4 %', since: TIME } })
  t.same(complaints('0.4 %')(account.now()!), [], 'said twice, happened once')
  t.match(account.after(complaints(null)), { suspended: { reason: 'complaints', note: null }, limits: { other: 7 } })
  t.match(account.after(decideResumption), { suspended: null, limits: { other: 7 } })
  t.same(decideResumption(account.now()!), [])
  t.match(complaints('')(account.now()!), { code: 'invalid_note' })
  t.match(complaints('x'.repeat(501))(account.now()!), { code: 'invalid_note' })
  t.match(complaints(null)({ ...account.now()!, id: FIRST_ACCOUNT }), { code: 'first_account' })
})

t.test('a key after each command is what the directory makes of its facts', async t => {
  const key = follow('key', 'key_one', keyOf('key_one'))
  t.match(key.now(), { id: 'key_one', account: 'acc_one', previous: null, limits: {}, createdAt: TIME })
  t.match(
    key.after(now => decideKeyChange(now, { name: 'Two', expiresMs: NOW_MS + DAY_MS, defaults: { opens: true } })),
    {
      name: 'Two',
      scopes: ['full'],
      expiresMs: NOW_MS + DAY_MS,
      defaults: { ...NO_DEFAULTS, opens: true }
    }
  )
  t.strictSame(decideKeyChange(key.now()!, { name: 'Two', defaults: { opens: true } }), [], 'said twice, happened once')
  const marks = { hash: 'b'.repeat(64), hint: 'jp_live_5678…' }
  t.match(key.after(now => decideKeyRotation(now, marks, 3600, NOW_MS)), {
    ...marks,
    previous: { hash: 'a'.repeat(64), untilMs: NOW_MS + 3_600_000 }
  })
  t.match(key.after(now => decideKeyRotation(now, { ...marks, hash: 'c'.repeat(64) }, 0, NOW_MS)), {
    previous: { hash: 'b'.repeat(64), untilMs: 0 }
  }, 'at once is over by every clock')
  key.after(now => decideLimits(now, { other: 5, 'emails:send': 7 }))
  t.match(key.after(now => decideLimits(now, { other: 6 })), { limits: { other: 6, 'emails:send': 7 } })
  t.equal(key.after(({ id }) => [{ type: KeyRevoked, data: { key: id } }]), undefined)
})

t.test('a key refuses what is fixed, what is over and limits that are none', async t => {
  const fixed = evolveEntity('key', `${FIXED_KEY}1`, undefined, [keyOf(`${FIXED_KEY}1`)])!
  t.match(decideKeyChange(fixed, { domains: ['a.example'] }), { code: 'key_fixed' })
  t.match(decideKeyChange(fixed, { name: 'Other' }), [{ type: { name: 'key.changed' } }])
  t.match(decideKeyRotation(fixed, { hash: '', hint: '' }, 0, NOW_MS), { code: 'key_fixed' })
  t.match(decideKeyRotation({ ...fixed, id: 'key_1', expiresMs: NOW_MS }, { hash: '', hint: '' }, 0, NOW_MS), {
    code: 'key_expired'
  })
  for (const limit of [0, 1.5, 10_000_001]) t.match(limitsFault({ other: limit }), { code: 'invalid_limit' })
  t.match(limitsFault({ all: 1 } as object), { code: 'invalid_limit' })
  t.equal(limitsFault({ other: 1, 'emails:list': 10_000_000 }), null)
})

const pairOf = (name: string): DkimKey[] => [
  { algorithm: 'rsa-sha256', selector: `${name}-rsa`, publicKey: 'MIIB', sealedKey: 'v1.x.y' },
  { algorithm: 'ed25519-sha256', selector: `${name}-ed25519`, publicKey: '11qY', sealedKey: 'v1.x.z' }
]
const NAME = 'shop.example'
const recordOf = (selector: string) => `${selector}._domainkey.${NAME}`

t.test('a domain after each command is what the directory makes of its facts', async t => {
  const [added] = decideAdd(undefined, { id: 'dom_1', name: NAME, dkim: pairOf('jp1') })
  t.equal(added!.type, DomainAdded)
  const domain = follow('domain', domainKey('acc_one', NAME), stamped([added!])[0]!)
  t.match(domain.now(), { id: 'dom_1', account: 'acc_one', status: 'pending', defaults: NO_DEFAULTS, createdAt: TIME })
  t.match(domain.after(now => decideDomainChange(now, { clicks: true })), {
    defaults: { ...NO_DEFAULTS, clicks: true }
  })
  t.strictSame(decideDomainChange(domain.now()!, { clicks: true }), [], 'said twice, happened once')
  const rsa = 'v=DKIM1; k=rsa; p=MIIB'
  const look = { [recordOf('jp1-rsa')]: [rsa], [`_dmarc.${NAME}`]: [] }
  t.match(domain.after(now => decideCheck(now, look, null, NOW_MS)), { status: 'verified', checkedAt: TIME })
  t.strictSame(decideCheck(domain.now()!, look, null, NOW_MS), [], 'seen twice, happened once')
  t.match(domain.after(now => decideDomainRotation(now, pairOf('jp2'))), {
    dkim: { active: pairOf('jp1'), next: { keys: pairOf('jp2'), since: TIME } }
  })
  t.match(decideDomainRotation(domain.now()!, pairOf('jp3')), { code: 'rotation_under_way' })
  const seen = { ...look, [recordOf('jp2-rsa')]: [rsa] }
  const switching = decideCheck(domain.now()!, seen, null, NOW_MS)
  t.same(switching.map(({ type }) => type.name), ['domain.keys_switched', 'domain.checked'])
  t.match(domain.after(() => switching), { dkim: { active: pairOf('jp2'), next: null }, status: 'verified' })
  const endMs = NOW_MS + 7 * DAY_MS
  t.match(domain.after(now => decideCheck(now, {}, null, endMs), endMs), { dkim: { previous: null } })
  t.equal(domain.after(decideRemoval), undefined)
})

t.test('an account claims a name once, and each account for itself', async t => {
  const owned = evolveEntity(
    'domain',
    domainKey('acc_one', NAME),
    undefined,
    stamped(decideAdd(undefined, {
      id: 'dom_1',
      name: NAME,
      dkim: pairOf('jp1')
    }))
  )
  t.equal(addFault(undefined, 999), null)
  t.match(addFault(undefined, 1000), { code: 'too_many_domains' })
  t.equal(addFault(owned, 1000), null, 'it has it already')
  t.strictSame(decideAdd(owned, { id: 'dom_2', name: NAME, dkim: pairOf('jp2') }), [])
  const directory = emptyDirectory()
  const tell = (account: string, { type, data }: Unstamped) => {
    const fact = checkFact(stamp(type, { ...CAUSE, account }, data, NOW_MS))
    evolveDirectory(directory, { fact, seq: 1, subject: '' })
  }
  const claimants = () => directory.domainsByName.get(NAME)?.map(({ account }) => account)
  for (const [i, account] of ['acc_one', 'acc_two'].entries()) {
    for (const fact of decideAdd(undefined, { id: `dom_${i}`, name: NAME, dkim: pairOf('jp1') })) tell(account, fact)
  }
  t.strictSame(claimants(), ['acc_one', 'acc_two'])
  const second = directory.domains.get(domainKey('acc_two', NAME))!
  for (const fact of decideRemoval(directory.domains.get(domainKey('acc_one', NAME))!)) tell('acc_one', fact)
  t.strictSame(claimants(), ['acc_two'])
  t.equal(directory.domains.get(domainKey('acc_two', NAME)), second)
  for (const fact of decideRemoval(second)) tell('acc_two', fact)
  t.strictSame([directory.domains.size, directory.domainsByName.size], [0, 0])
})

t.test('a claim yields to that of another account only once DNS has proven it', async t => {
  const claim = (account: string, status: 'pending' | 'verified' | 'failed') => ({ account, status })
  const own = claim('acc_one', 'pending')
  for (const status of ['pending', 'failed'] as const) {
    t.equal(isProvenByAnother(own, [own, claim('acc_two', status)]), false, status)
  }
  t.equal(isProvenByAnother(own, [own, claim('acc_two', 'verified')]), true)
  t.equal(isProvenByAnother(own, [claim('acc_one', 'verified')]), false, 'its own proof')
})

t.test('an endpoint after each command is what the directory makes of its facts', async t => {
  const settings = { url: 'https://a.example/', events: ['email.delivered' as const], paused: false, concurrency: null }
  const data = {
    webhook: 'wh_1',
    ...settings,
    batch: null,
    everyDeferral: false,
    mode: 'both' as const,
    sealedSecret: 'v1.a.b',
    startAt: TIME
  }
  const webhook = follow('webhook', 'wh_1', stamp(WebhookCreated, CAUSE, data, NOW_MS))
  t.match(webhook.now(), { id: 'wh_1', account: 'acc_one', previous: null, disabled: null, createdAt: TIME })
  t.match(webhook.after(now => decideChange(now, { paused: true })), { ...settings, paused: true })
  t.match(webhook.after(now => decideRotation(now, 'v1.c.d', NOW_MS)), {
    sealedSecret: 'v1.c.d',
    previous: { sealedSecret: 'v1.a.b', untilMs: NOW_MS + DAY_MS }
  })
  t.match(webhook.after(now => decideFinish(now, NOW_MS)), { sealedSecret: 'v1.c.d', previous: null })
  t.equal(webhook.after(decideDelete), undefined)
})

t.test('an account is suspended for what came of its mail, above the rates and the least counts alone', async t => {
  const rates = { bounces: 0.1, complaints: 0.005 }
  const none = { delivered: 0, bounced: 0, failed: 0, complained: 0 }
  const due = (fate: Partial<typeof none>, given: SuspensionRates = rates) => suspensionFor({ ...none, ...fate }, given)
  t.equal(due({}), null)
  t.equal(due({ delivered: 90, bounced: 10 }), null, 'not more than the rate')
  t.strictSame(due({ delivered: 89, bounced: 11 }), {
    reason: 'bounces',
    note: '11 of 100 recipients bounced, more than 10 %'
  })
  t.equal(due({ bounced: 99 }), null, 'too few')
  t.equal(due({ delivered: 89, bounced: 11 }, { ...rates, bounces: null }), null, 'never')
  t.equal(due({ delivered: 991, bounced: 9 }, { ...rates, bounces: 0.001 }), null, 'a few have all')
  t.equal(due({ delivered: 60, bounced: 11, failed: 50 }), null, 'what failed was sent, too')
  t.equal(due({ delivered: 100, complained: 2 }), null)
  t.strictSame(due({ delivered: 400, complained: 3 }), {
    reason: 'complaints',
    note: '3 of 400 recipients complained, more than 0.5 %'
  })
  t.equal(due({ delivered: 600, complained: 3 }), null)
  t.equal(due({ delivered: 400, complained: 3 }, { ...rates, complaints: null }), null)
})
