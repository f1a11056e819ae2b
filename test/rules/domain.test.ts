import { readFileSync } from 'node:fs'
import t from 'tap'
import { Refusal } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import {
  afterLook,
  countFault,
  decideReseal,
  domainsInUse,
  isVerifiedEnough,
  keyTurn,
  nextLookMs,
  ownableName,
  rotationFault,
  type Checked,
  type DnsLook
} from '#streams/domain/decide.ts'
import type { DkimKey, RecordState } from '#streams/domain/facts.ts'
import { firstKeys, keptKeys, resealed, turned, withNext } from '#streams/domain/keys.ts'
import {
  judge,
  policyNames,
  policyOf,
  returnPathHost,
  seenRecords,
  signingKeys,
  wantedRecords,
  type WantedRecord
} from '#streams/domain/records.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'

const NOW_MS = Date.parse('2026-11-21T10:00:00.000Z')
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const KEY = 'MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A'
const SMALL = '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='
const RIGHT = `v=DKIM1; k=rsa; p=${KEY}`
const SMALL_RIGHT = `v=DKIM1; k=ed25519; p=${SMALL}`

const pairOf = (name: string): DkimKey[] => [
  { algorithm: 'rsa-sha256', selector: `${name}-rsa`, publicKey: KEY, sealedKey: `v1.${name}.y` },
  { algorithm: 'ed25519-sha256', selector: `${name}-ed25519`, publicKey: SMALL, sealedKey: `v1.${name}.z` }
]
const RSA = 'jp1-rsa._domainkey.shop.example'
const ED25519 = 'jp1-ed25519._domainkey.shop.example'
const RETURN_PATH = 'jp-bounces.shop.example'
const DMARC = '_dmarc.shop.example'

const fresh: DomainEntry = {
  id: 'dom_1',
  account: 'acc_1',
  name: 'shop.example',
  dkim: firstKeys(pairOf('jp1')),
  defaults: NO_DEFAULTS,
  status: 'pending',
  records: [],
  spf: null,
  failingSince: null,
  checkedAt: null,
  createdAt: '2026-11-21T00:00:00.000Z'
}
const wanted = wantedRecords(fresh, null)
const [dkim, small, dmarc] = [wanted[0]!, wanted[1]!, wanted[2]!]
const returnPath = wantedRecords(fresh, 'bounces.jetpost.example')[2]!
const recordOf = (wanted: WantedRecord, found: string[]) => judge(wanted, found) as RecordState

const LOOKS: Record<string, DnsLook> = {
  right: { [RSA]: [RIGHT], [DMARC]: [] },
  missing: { [RSA]: [], [DMARC]: [] },
  wrong: { [RSA]: ['v=DKIM1; p=other'], [DMARC]: [] },
  silent: { [DMARC]: [] }
}

/** The domain after looks, each so many hours after now. */
function after (...looks: Array<[look: string, hours: number]>): DomainEntry {
  return looks.reduce(
    (domain, [look, hours]) => ({ ...domain, ...afterLook(domain, wanted, LOOKS[look]!, NOW_MS + hours * HOUR_MS) }),
    fresh
  )
}

const STATES: Record<string, { domain: DomainEntry, hours: number }> = {
  'pending, new': { domain: fresh, hours: 0 },
  'pending, missing': { domain: after(['missing', 0]), hours: 1 },
  verified: { domain: after(['right', 0]), hours: 1 },
  'verified, failing': { domain: after(['right', 0], ['missing', 1]), hours: 72 },
  'verified, failing 72 h': { domain: after(['right', 0], ['missing', 1]), hours: 73 },
  failed: { domain: after(['right', 0], ['missing', 1], ['missing', 73]), hours: 74 }
}

function nameOf ({ status, failingSince }: Checked): string {
  return status === 'verified' && failingSince !== null ? 'verified, failing' : status
}

t.test('every transition is as the table in the README says', async t => {
  const readme = readFileSync(new URL('../../streams/domain/README.md', import.meta.url), 'utf8')
  const [head, , ...rows] = readme.split('\n').filter(line => line.startsWith('|')).slice(
    0,
    2 + Object.keys(STATES).length
  )
    .map(line => line.slice(1, -1).split('|').map(cell => cell.trim()))
  t.same(rows.map(([name]) => name), Object.keys(STATES))
  t.same(head!.slice(1), Object.keys(LOOKS))
  for (const [name, ...cells] of rows) {
    for (const [i, cell] of cells.entries()) {
      const { domain, hours } = STATES[name!]!
      const checked = afterLook(domain, wanted, LOOKS[head![i + 1]!]!, NOW_MS + hours * HOUR_MS)
      t.equal(checked === null ? '·' : nameOf(checked), cell, `${name}, then ${head![i + 1]}`)
    }
  }
})

t.test('the same look twice is nothing new, in whatever order DNS answers', async t => {
  for (const [name, look] of Object.entries(LOOKS)) {
    const domain = after([name, 0])
    t.equal(afterLook(domain, wanted, look, NOW_MS + HOUR_MS), null, name)
  }
  const domain = { ...fresh, ...afterLook(fresh, wanted, { [RSA]: ['a', 'b'], [DMARC]: [] }, NOW_MS) }
  t.equal(afterLook(domain, wanted, { [RSA]: ['b', 'a'], [DMARC]: [] }, NOW_MS), null)
})

t.test('failing counts from the first wrong look, and begins again after a right one', async t => {
  t.equal(after(['right', 0], ['missing', 1], ['wrong', 5]).failingSince, '2026-11-21T11:00:00.000Z')
  const mended = after(['right', 0], ['missing', 1], ['right', 2])
  t.match(mended, { status: 'verified', failingSince: null })
  t.match(after(['right', 0], ['missing', 1], ['right', 2], ['missing', 70], ['missing', 100]), {
    status: 'verified',
    failingSince: '2026-11-24T08:00:00.000Z'
  })
})

t.test('advice is recorded, changes no status, and stays as it was when DNS does not say', async t => {
  const asked = wantedRecords(fresh, 'bounces.jetpost.example')
  const look = { [RSA]: [RIGHT], [ED25519]: [], [RETURN_PATH]: ['elsewhere.example'], [DMARC]: ['v=DMARC1; p=none'] }
  const first = afterLook(fresh, asked, look, NOW_MS)!
  t.match(first, {
    status: 'verified',
    records: [{ name: RSA, state: 'ok' }, { name: ED25519, purpose: 'dkim', state: 'missing' }, {
      purpose: 'return_path',
      state: 'wrong',
      found: ['elsewhere.example']
    }, { purpose: 'dmarc', state: 'ok' }]
  })
  t.equal(afterLook({ ...fresh, ...first }, asked, { [RSA]: [RIGHT] }, NOW_MS), null)
  t.match(afterLook({ ...fresh, ...first }, asked, { ...look, [DMARC]: [] }, NOW_MS), {
    status: 'verified',
    records: [{}, {}, {}, { state: 'missing' }]
  })
})

t.test('a DKIM record is compared by its tags, as a receiver reads it', async t => {
  const right = [
    RIGHT,
    `p=${KEY}`,
    `k=rsa; p=${KEY};`,
    `p=${KEY}; k=rsa; v=DKIM1`,
    `v=DKIM1;k=rsa;p=${KEY}`,
    ` v = DKIM1 ; p = ${KEY.slice(0, 9)} \t${KEY.slice(9)} `,
    `v=DKIM1; t=y; p=${KEY}`,
    `v=DKIM1; t=s; n=our key; p=${KEY}`,
    `v=DKIM1; h=sha1:sha256; s=email; p=${KEY}`,
    `v=DKIM1; s=*; p=${KEY}`
  ]
  for (const text of right) t.equal(judge(dkim, [text]).state, 'ok', text)
  const wrong = [
    'v=DKIM1; k=rsa; p=',
    `v=DKIM1; k=ed25519; p=${KEY}`,
    `v=DKIM2; p=${KEY}`,
    `v=DKIM1; p=${KEY}x`,
    `v=DKIM1; p=${KEY.toLowerCase()}`,
    `v=DKIM1; h=sha1; p=${KEY}`,
    `v=DKIM1; s=tlsrpt; p=${KEY}`,
    `v=DKIM1\\; k=rsa\\; p=${KEY}`,
    `"${RIGHT}"`,
    `v=DKIM1; p=${KEY}; p=other`,
    'v=spf1 -all',
    KEY,
    '',
    ';;;',
    '=',
    `V=DKIM1; P=${KEY}`
  ]
  for (const text of wrong) t.match(judge(dkim, [text]), { state: 'wrong', found: [text] }, text)
  t.same(judge(dkim, []), { name: RSA, purpose: 'dkim', state: 'missing', found: [] })
  t.same(
    judge(dkim, ['v=spf1 -all', RIGHT]),
    { name: RSA, purpose: 'dkim', state: 'ok', found: [RIGHT] },
    'one of several is enough'
  )
  t.equal(judge(small, [SMALL_RIGHT]).state, 'ok')
  for (const text of [RIGHT, `v=DKIM1; p=${SMALL}`, `v=DKIM1; k=rsa; p=${SMALL}`]) {
    t.equal(judge(small, [text]).state, 'wrong', text)
  }
  t.equal(judge(dkim, [`v=DKIM1; k=ed25519; p=${KEY}`]).state, 'wrong', 'of another kind')
})

t.test('in direct mode SPF is looked up where mail comes back to, and is needed for nothing', async t => {
  const ask = (bounceDomain: string | null) =>
    wantedRecords(fresh, bounceDomain, 'mail.jetpost.example').find(({ purpose }) => purpose === 'spf')!
  const asked = wantedRecords(fresh, null, 'mail.jetpost.example')
  const spf = ask(null)
  t.match(spf, { name: 'shop.example', value: 'v=spf1 a:mail.jetpost.example ~all', required: false })
  t.equal(ask('bounces.jetpost.example').name, 'bounces.jetpost.example')
  t.equal(wanted.some(({ purpose }) => purpose === 'spf'), false, 'a relay has its own')
  const look = { [RSA]: [RIGHT], [DMARC]: [], 'shop.example': ['v=spf1 mx -all'] }
  const checked = afterLook(fresh, asked, look, NOW_MS)!
  t.match(checked, { status: 'verified', spf: { name: 'shop.example', state: 'ok', found: ['v=spf1 mx -all'] } })
  t.notOk(checked.records.some(({ name }) => name === 'shop.example'), 'records are what they were')
  const domain = { ...fresh, ...checked, spf: checked.spf! }
  t.match(seenRecords(domain, null, 'mail.jetpost.example').find(({ purpose }) => purpose === 'spf'), { state: 'ok' })
  t.equal(afterLook(domain, asked, look, NOW_MS), null, 'nothing new')
  t.match(afterLook(domain, asked, { ...look, 'shop.example': [] }, NOW_MS), { spf: { state: 'missing' } })
  t.equal(judge(spf, ['v=spf1 -all', 'v=spf1 mx -all']).state, 'wrong', 'receivers fail two (RFC 7208 4.5)')
})

t.test('any valid DMARC policy will do, and only one', async t => {
  for (
    const text of ['v=DMARC1; p=none', 'v=DMARC1;p=Reject;rua=mailto:a@b.example', 'v=DMARC1; sp=none; p=quarantine']
  ) t.equal(judge(dmarc, [text]).state, 'ok', text)
  for (const text of ['v=DMARC1', 'v=DMARC1; p=all', 'p=none; v=DMARC1', 'v=DMARC11; p=none', 'v=spf1 -all']) {
    t.equal(judge(dmarc, [text]).state, 'wrong', text)
  }
  const one = 'v=DMARC1; p=none'
  t.same(policyOf([['v=spf1 -all'], [one]]), [one], "a parent's")
  t.same(policyOf([[one], null]), [one], 'what lies above does not matter')
  t.equal(policyOf([[], null, [one]]), null, 'it may hide there')
  t.same(policyOf([[one, one], []]), [one, one])
  t.same(policyOf([[one, one], [one]]), [one, one], 'the search ends there')
  t.match(judge(dmarc, [one, one]), { state: 'wrong', found: [one, one] }, 'receivers apply none of two')
  t.same(policyOf([[], []]), [])
})

t.test('a policy is looked for at the name and its parents, at eight names at most', async t => {
  t.same(policyNames('example.com'), ['_dmarc.example.com'])
  t.same(policyNames('a.b.example.com'), ['_dmarc.a.b.example.com', '_dmarc.b.example.com', '_dmarc.example.com'])
  const deep = policyNames('a.b.c.d.e.f.g.h.i.j.example.com')
  t.same(deep.slice(0, 2), ['_dmarc.a.b.c.d.e.f.g.h.i.j.example.com', '_dmarc.f.g.h.i.j.example.com'])
  t.ok(deep.length <= 8)
})

t.test('the return path is asked for where there is a bounce host outside of the domain', async t => {
  t.match(returnPath, {
    purpose: 'return_path',
    type: 'CNAME',
    name: 'jp-bounces.shop.example',
    value: 'bounces.jetpost.example',
    required: false
  })
  t.equal(judge(returnPath, ['bounces.jetpost.example']).state, 'ok')
  for (const host of ['shop.example', 'bounces.shop.example']) {
    t.same(wantedRecords(fresh, host).map(({ purpose }) => purpose), ['dkim', 'dkim', 'dmarc'], host)
  }
  t.equal(wantedRecords(fresh, 'bounces.myshop.example').length, 4)
})

t.test('what DNS shows is kept short, and harmless to a terminal', async t => {
  const { found } = judge(dkim, Array.from({ length: 10_000 }, (_, i) => `${i}\x1b[2J\u009b${'x'.repeat(2000)}`))
  t.equal(found.length, 5)
  for (const text of found) t.match(text, /^\d+\?\[2J\?x+$/)
  t.ok(found.every(text => text.length === 500))
})

t.test('a record nobody has looked at is unchecked', async t => {
  t.match(seenRecords(fresh, null), [
    {
      purpose: 'dkim',
      type: 'TXT',
      name: RSA,
      value: RIGHT,
      required: true,
      stage: 'current',
      removableAt: null,
      state: 'unchecked',
      found: []
    },
    {
      purpose: 'dkim',
      type: 'TXT',
      name: ED25519,
      value: SMALL_RIGHT,
      required: false,
      stage: 'current',
      removableAt: null,
      state: 'unchecked',
      found: []
    },
    { name: DMARC, state: 'unchecked' }
  ])
  t.match(seenRecords(after(['wrong', 0]), null), [{ state: 'wrong', found: ['v=DKIM1; p=other'] }, {
    state: 'unchecked'
  }, { state: 'missing' }])
})

t.test('names one can own', async t => {
  t.equal(ownableName('Shop.Example'), 'shop.example')
  t.equal(ownableName('bücher.example'), 'xn--bcher-kva.example')
  for (
    const text of [
      'localhost',
      '127.0.0.1',
      '[::1]',
      'sandbox.jetpost.test',
      'Sandbox.Jetpost.Test',
      'a@b.example',
      'shop.example.',
      '*.shop.example',
      '',
      `${'a.'.repeat(100)}example`
    ]
  ) {
    t.ok(ownableName(text) instanceof Refusal, text)
  }
  t.equal(countFault(999), null)
  t.match(countFault(1000), { code: 'too_many_domains' })
})

t.test('mail leaves from verified domains where they are required; from the sandbox always', async t => {
  for (const status of ['pending', 'verified', 'failed'] as const) {
    t.equal(isVerifiedEnough({ status }, true), status === 'verified')
    t.equal(isVerifiedEnough({ status }, false), true)
  }
  t.equal(isVerifiedEnough(undefined, true), true)
})

t.test("an operator looks after the first account's domains, and what DNS shows to be another's", t => {
  const domain = (account: string, status: DomainEntry['status']) => ({ account, status }) as DomainEntry
  const used = [domain('acc_first', 'pending'), domain('acc_first', 'verified'), domain('acc_2', 'verified')]
  t.strictSame(domainsInUse([...used, domain('acc_2', 'pending'), domain('acc_2', 'failed')]), used)
  t.end()
})

t.test('a pending domain is looked at each minute, then ever more seldom, at most hourly', async t => {
  const createdMs = Date.parse(fresh.createdAt)
  const watch = { told: true, sinceMs: createdMs + HOUR_MS, luck: 0.5 }
  t.equal(nextLookMs(fresh, { ...watch, lookedMs: null }), createdMs + 60_000)
  const gapAt = (ageMs: number) => nextLookMs(fresh, { ...watch, lookedMs: createdMs + ageMs }) - createdMs - ageMs
  t.same([60_000, 600_000, 1_200_000, 10 * HOUR_MS, 1000 * HOUR_MS].map(gapAt), [
    60_000,
    60_000,
    120_000,
    HOUR_MS,
    HOUR_MS
  ])
})

t.test('a settled domain is checked every 6 to 12 hours, hourly in trouble, daily when failed', async t => {
  const verified = after(['right', 0])
  const gap = (domain: DomainEntry, luck: number, told = true) =>
    (nextLookMs(domain, { lookedMs: NOW_MS, told, sinceMs: 0, luck }) - NOW_MS) / HOUR_MS
  t.same([
    gap(verified, 0),
    gap(verified, 0.5),
    gap(verified, 0.5, false),
    gap(STATES['verified, failing']!.domain, 0.5),
    gap(STATES.failed!.domain, 0.5)
  ], [6, 9, 1, 1, 24])
  t.equal(nextLookMs(verified, { lookedMs: null, told: true, sinceMs: NOW_MS, luck: 0.5 }), NOW_MS + 4.5 * HOUR_MS)
})

/** A domain whose records were right, in the stages of a rotation that began now; its new keys are seen after an hour.
 */
const begun: DomainEntry = {
  ...after(['right', 0]),
  dkim: withNext(firstKeys(pairOf('jp1')), pairOf('jp2'), new Date(NOW_MS).toISOString())
}
const NEW_RSA = 'jp2-rsa._domainkey.shop.example'
const switchedAt = NOW_MS + HOUR_MS
const switched: DomainEntry = {
  ...begun,
  dkim: turned(begun.dkim, keyTurn(begun, { [NEW_RSA]: [RIGHT] }, switchedAt)!)
}
const retired: DomainEntry = { ...switched, dkim: turned(switched.dkim, { name: 'retired' }) }
const stagesOf = (domain: DomainEntry) =>
  seenRecords(domain, null).map(({ name, stage, required }) =>
    `${name.split('.')[0]} ${stage}${required ? ' required' : ''}`
  )

t.test('every turn of a rotation is as the table in the README says', async t => {
  const readme = readFileSync(new URL('../../streams/domain/README.md', import.meta.url), 'utf8')
  const rows = readme.slice(readme.indexOf('## Rotation')).split('\n').filter(line => line.startsWith('|')).slice(0, 6)
    .map(line => line.slice(1, -1).split('|').map(cell => cell.trim()))
  const stages: Record<string, DomainEntry> = {
    settled: after(['right', 0]),
    waiting: begun,
    overlap: switched,
    retired
  }
  const looks: Record<string, [DnsLook, number]> = {
    'new RSA key seen': [{ [NEW_RSA]: [RIGHT] }, 1],
    'not seen, or DNS silent': [{ [NEW_RSA]: [] }, 1],
    '7 days after the switch': [{}, 7 * 24 + 1]
  }
  t.same(rows.slice(2).map(([name]) => name), Object.keys(stages))
  t.same(rows[0]!.slice(1), ['rotate', ...Object.keys(looks)])
  const stageOf = ({ dkim }: DomainEntry) =>
    dkim.next !== null
      ? 'waiting'
      : dkim.previous !== null
      ? 'overlap'
      : dkim.retired.length > 0
      ? 'retired'
      : 'settled'
  for (const [name, asked, ...cells] of rows.slice(2)) {
    const domain = stages[name!]!
    t.equal(rotationFault(domain) === null ? 'waiting' : 'refused', asked, `${name}, then rotate`)
    for (const [i, cell] of cells.entries()) {
      const [look, hours] = Object.values(looks)[i]!
      const turn = keyTurn(domain, look, NOW_MS + hours * HOUR_MS)
      t.equal(
        turn === null ? '·' : stageOf({ ...domain, dkim: turned(domain.dkim, turn) }),
        cell,
        `${name}, then ${Object.keys(looks)[i]}`
      )
    }
  }
})

t.test('the old keys sign until DNS shows the new RSA key; the new Ed25519 key alone does not count', async t => {
  for (
    const look of [{}, { [NEW_RSA]: [] }, { [NEW_RSA]: [SMALL_RIGHT] }, { [RSA]: [RIGHT] }, {
      'jp2-ed25519._domainkey.shop.example': [SMALL_RIGHT]
    }] as DnsLook[]
  ) {
    t.equal(keyTurn(begun, look, switchedAt + 30 * DAY_MS), null, JSON.stringify(look))
  }
  t.same(signingKeys(begun).map(({ selector }) => selector), ['jp1-rsa', 'jp1-ed25519'])
  t.same(keyTurn(begun, { [NEW_RSA]: [RIGHT] }, switchedAt), {
    name: 'switched',
    previousUntil: new Date(switchedAt + 7 * DAY_MS).toISOString()
  })
  t.same(signingKeys(switched).map(({ selector }) => selector), ['jp2-rsa', 'jp2-ed25519'])
})

t.test('the old records stay wanted for seven days, then may go, and are not shown once they are gone', async t => {
  t.same(stagesOf(begun), [
    'jp1-rsa current required',
    'jp1-ed25519 current',
    'jp2-rsa next',
    'jp2-ed25519 next',
    '_dmarc current'
  ])
  t.same(stagesOf(switched), [
    'jp2-rsa current required',
    'jp2-ed25519 current',
    '_dmarc current',
    'jp1-rsa previous',
    'jp1-ed25519 previous'
  ])
  t.match(seenRecords(switched, null)[3], { removableAt: new Date(switchedAt + 7 * DAY_MS).toISOString(), state: 'ok' })
  t.equal(keyTurn(switched, {}, switchedAt + 7 * DAY_MS - 1), null)
  t.same(keyTurn(switched, {}, switchedAt + 7 * DAY_MS), { name: 'retired' })
  t.same(
    stagesOf(retired),
    ['jp2-rsa current required', 'jp2-ed25519 current', '_dmarc current', 'jp1-rsa removable'],
    'what DNS never showed need not be removed'
  )
  const look = {
    [NEW_RSA]: [RIGHT],
    'jp2-ed25519._domainkey.shop.example': [SMALL_RIGHT],
    [RSA]: [],
    [ED25519]: [],
    [DMARC]: []
  }
  const gone: DomainEntry = { ...retired, ...afterLook(retired, wantedRecords(retired, null), look, NOW_MS) }
  t.same(stagesOf(gone), ['jp2-rsa current required', 'jp2-ed25519 current', '_dmarc current'])
  t.equal(gone.status, 'verified', 'they are no longer required')
  t.equal(afterLook(gone, wantedRecords(gone, null), look, NOW_MS), null)
})

t.test('one rotation at a time, and private halves are kept no longer than they sign', async t => {
  t.match(rotationFault(begun), { code: 'rotation_under_way', message: /until|once/ })
  t.match(rotationFault(switched), { code: 'rotation_under_way' })
  t.equal(rotationFault(retired), null)
  const again = withNext(retired.dkim, pairOf('jp3'), new Date(NOW_MS).toISOString())
  t.same(
    turned(turned(again, { name: 'switched', previousUntil: again.next!.since }), { name: 'retired' }).retired.map((
      { selector }
    ) => selector),
    ['jp2-rsa', 'jp2-ed25519']
  )
  t.notMatch(JSON.stringify([switched.dkim.previous, retired.dkim.retired]), 'sealed')
  t.same(
    turned(firstKeys(pairOf('jp1')), { name: 'switched', previousUntil: '' }),
    firstKeys(pairOf('jp1')),
    'a switch to nothing changes nothing'
  )
})

t.test('RSA always signs; Ed25519 is left out when DNS shows the record of RSA and not its own', async t => {
  const names = (rsa: string[] | undefined, ed25519: string[] | undefined) => {
    const look: DnsLook = {
      ...(rsa === undefined ? {} : { [RSA]: rsa }),
      ...(ed25519 === undefined ? {} : { [ED25519]: ed25519 })
    }
    const records = wanted.flatMap(record =>
      look[record.name] === undefined ? [] : recordOf(record, look[record.name]!)
    )
    return signingKeys({ ...fresh, records }).map(({ selector }) => selector.split('-')[1])
  }
  t.same(names(undefined, undefined), ['rsa', 'ed25519'], 'nobody has looked')
  t.same(names([RIGHT], [SMALL_RIGHT]), ['rsa', 'ed25519'])
  t.same(names([RIGHT], []), ['rsa'])
  t.same(names([RIGHT], [RIGHT]), ['rsa'])
  t.same(names([], [SMALL_RIGHT]), ['rsa', 'ed25519'], 'one look may have missed it')
  t.same(names([], []), ['rsa', 'ed25519'], 'others may see more')
  t.same(names(['wrong'], undefined), ['rsa', 'ed25519'])
  t.same(names([RIGHT], undefined), ['rsa', 'ed25519'], 'DNS did not say')
})

t.test("mail comes back to the domain's own host once DNS leads from there to ours", async t => {
  const host = 'bounces.jetpost.example'
  const seen = (...found: string[]): DomainEntry => ({ ...fresh, records: [recordOf(returnPath, found)] })
  t.equal(returnPathHost(fresh, null), null)
  t.equal(returnPathHost(fresh, host), host)
  t.equal(returnPathHost(seen(), host), host)
  t.equal(returnPathHost(seen('elsewhere.example'), host), host)
  t.equal(returnPathHost(seen(host), host), 'jp-bounces.shop.example')
  t.equal(returnPathHost(seen(host), null), null)
  t.equal(returnPathHost(seen(host), 'mail.shop.example'), 'mail.shop.example', 'it lies within already')
})

t.test('new keys are awaited like a new domain; at the end of the overlap there is a check', async t => {
  const watch = { told: true, sinceMs: 0, luck: 1 }
  const sinceMs = NOW_MS
  for (const status of ['pending', 'verified', 'failed'] as const) {
    const waiting = { ...begun, status, createdAt: '2020-01-01T00:00:00.000Z' }
    const gapAt = (ageMs: number) => nextLookMs(waiting, { ...watch, lookedMs: sinceMs + ageMs }) - sinceMs - ageMs
    t.same([-1, 0, 600_000, 1_200_000, 10 * HOUR_MS].map(gapAt), [60_001, 60_000, 60_000, 120_000, HOUR_MS], status)
  }
  const untilMs = switchedAt + 7 * DAY_MS
  t.equal(nextLookMs(switched, { ...watch, lookedMs: untilMs - HOUR_MS }), untilMs)
  t.equal(
    nextLookMs(switched, { ...watch, lookedMs: untilMs - DAY_MS }),
    untilMs - DAY_MS / 2,
    'and before it as always'
  )
  t.equal(
    nextLookMs(switched, { ...watch, lookedMs: untilMs + 1 }),
    untilMs + 1 + HOUR_MS,
    'hourly when DNS was silent then'
  )
})

t.test('the private keys that are kept are sealed again, and only those of an older secret', async t => {
  const keys = withNext(firstKeys(pairOf('jp1')), pairOf('jp2'), fresh.createdAt)
  const domain = { ...fresh, dkim: keys }
  const reseal = (sealed: string) => (sealed.startsWith('v1.jp1') ? sealed.replace('v1', 'v2.new') : null)
  const sealed = [
    { selector: 'jp1-rsa', sealedKey: 'v2.new.jp1.y' },
    { selector: 'jp1-ed25519', sealedKey: 'v2.new.jp1.z' }
  ]
  t.match(decideReseal(domain, reseal), [{
    type: { name: 'domain.keys_resealed' },
    data: { domain: 'dom_1', name: 'shop.example', keys: sealed }
  }])
  const after = resealed(keys, sealed)
  t.same(keptKeys(after).map(({ sealedKey }) => sealedKey), [
    'v2.new.jp1.y',
    'v2.new.jp1.z',
    'v1.jp2.y',
    'v1.jp2.z'
  ])
  t.same(after.active.map(({ publicKey }) => publicKey), [KEY, SMALL], 'the keys are the same')
  t.same(decideReseal({ ...domain, dkim: after }, reseal), [], 'once')
  t.same(decideReseal({ ...domain, dkim: turned(after, { name: 'switched', previousUntil: '' }) }, reseal), [])
})
