import { readFileSync } from 'node:fs'
import t from 'tap'
import { Refusal } from '#streams/define.ts'
import type { Domain } from '#streams/directory.ts'
import { afterLook, countFault, isVerifiedEnough, nextLookMs, ownableName, type Checked, type Look } from '#streams/domain/decide.ts'
import { judge, policyNames, policyOf, seenRecords, wantedRecords } from '#streams/domain/records.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'

const NOW_MS = Date.parse('2026-11-21T10:00:00.000Z')
const HOUR_MS = 3_600_000
const KEY = 'MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A'
const RIGHT = `v=DKIM1; k=rsa; p=${KEY}`

const fresh: Domain = {
  id: 'dom_1', account: 'acc_1', name: 'shop.example', dkim: { selector: 'jp1', publicKey: KEY, sealedKey: 'v1.x.y' }, defaults: NO_DEFAULTS,
  status: 'pending', records: [], failingSince: null, checkedAt: null, createdAt: '2026-11-21T00:00:00.000Z'
}
const wanted = wantedRecords(fresh, null)
const [dkim, dmarc] = [wanted[0]!, wanted[1]!]
const returnPath = wantedRecords(fresh, 'bounces.jetpost.example')[1]!

const LOOKS: Record<string, Look> = {
  right: { dkim: [RIGHT], dmarc: [] },
  missing: { dkim: [], dmarc: [] },
  wrong: { dkim: ['v=DKIM1; p=other'], dmarc: [] },
  silent: { dmarc: [] }
}

/** The domain after looks, each so many hours after now. */
function after (...looks: Array<[look: string, hours: number]>): Domain {
  return looks.reduce((domain, [look, hours]) => ({ ...domain, ...afterLook(domain, wanted, LOOKS[look]!, NOW_MS + hours * HOUR_MS) }), fresh)
}

const STATES: Record<string, { domain: Domain, hours: number }> = {
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
  const [head, , ...rows] = readme.split('\n').filter(line => line.startsWith('|')).slice(0, 2 + Object.keys(STATES).length)
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
  const domain = { ...fresh, ...afterLook(fresh, wanted, { dkim: ['a', 'b'], dmarc: [] }, NOW_MS) }
  t.equal(afterLook(domain, wanted, { dkim: ['b', 'a'], dmarc: [] }, NOW_MS), null)
})

t.test('failing counts from the first wrong look, and begins anew after a right one', async t => {
  t.equal(after(['right', 0], ['missing', 1], ['wrong', 5]).failingSince, '2026-11-21T11:00:00.000Z')
  const mended = after(['right', 0], ['missing', 1], ['right', 2])
  t.match(mended, { status: 'verified', failingSince: null })
  t.match(after(['right', 0], ['missing', 1], ['right', 2], ['missing', 70], ['missing', 100]), { status: 'verified', failingSince: '2026-11-24T08:00:00.000Z' })
})

t.test('advice is recorded, changes no status, and stays as it was when DNS does not say', async t => {
  const asked = wantedRecords(fresh, 'bounces.jetpost.example')
  const look = { dkim: [RIGHT], return_path: ['elsewhere.example'], dmarc: ['v=DMARC1; p=none'] }
  const first = afterLook(fresh, asked, look, NOW_MS)!
  t.match(first, { status: 'verified', records: [{ purpose: 'dkim', state: 'ok' }, { purpose: 'return_path', state: 'wrong', found: ['elsewhere.example'] }, { purpose: 'dmarc', state: 'ok' }] })
  t.equal(afterLook({ ...fresh, ...first }, asked, { dkim: [RIGHT] }, NOW_MS), null)
  t.match(afterLook({ ...fresh, ...first }, asked, { ...look, dmarc: [] }, NOW_MS), { status: 'verified', records: [{}, {}, { state: 'missing' }] })
})

t.test('a DKIM record is compared by its tags, as a receiver reads it', async t => {
  const right = [
    RIGHT, `p=${KEY}`, `k=rsa; p=${KEY};`, `p=${KEY}; k=rsa; v=DKIM1`, `v=DKIM1;k=rsa;p=${KEY}`, ` v = DKIM1 ; p = ${KEY.slice(0, 9)} \t${KEY.slice(9)} `,
    `v=DKIM1; t=y; p=${KEY}`, `v=DKIM1; t=s; n=our key; p=${KEY}`, `v=DKIM1; h=sha1:sha256; s=email; p=${KEY}`, `v=DKIM1; s=*; p=${KEY}`
  ]
  for (const text of right) t.equal(judge(dkim, [text]).state, 'ok', text)
  const wrong = [
    'v=DKIM1; k=rsa; p=', `v=DKIM1; k=ed25519; p=${KEY}`, `v=DKIM2; p=${KEY}`, `v=DKIM1; p=${KEY}x`, `v=DKIM1; p=${KEY.toLowerCase()}`, `v=DKIM1; h=sha1; p=${KEY}`,
    `v=DKIM1; s=tlsrpt; p=${KEY}`, `v=DKIM1\\; k=rsa\\; p=${KEY}`, `"${RIGHT}"`, `v=DKIM1; p=${KEY}; p=other`, 'v=spf1 -all', KEY, '', ';;;', '=', `V=DKIM1; P=${KEY}`
  ]
  for (const text of wrong) t.match(judge(dkim, [text]), { state: 'wrong', found: [text] }, text)
  t.same(judge(dkim, []), { purpose: 'dkim', state: 'missing', found: [] })
  t.same(judge(dkim, ['v=spf1 -all', RIGHT]), { purpose: 'dkim', state: 'ok', found: [RIGHT] }, 'one of several is enough')
})

t.test('any valid DMARC policy will do, and only one', async t => {
  for (const text of ['v=DMARC1; p=none', 'v=DMARC1;p=Reject;rua=mailto:a@b.example', 'v=DMARC1; sp=none; p=quarantine']) t.equal(judge(dmarc, [text]).state, 'ok', text)
  for (const text of ['v=DMARC1', 'v=DMARC1; p=all', 'p=none; v=DMARC1', 'v=DMARC11; p=none', 'v=spf1 -all']) t.equal(judge(dmarc, [text]).state, 'wrong', text)
  const one = 'v=DMARC1; p=none'
  t.same(policyOf([['v=spf1 -all'], [one]]), [one], "a parent's")
  t.same(policyOf([[one], null]), [one], 'what lies above does not matter')
  t.equal(policyOf([[], null, [one]]), null, 'it may hide there')
  t.same(policyOf([[one, one], []]), [one, one])
  t.same(policyOf([[], []]), [])
})

t.test('a policy is looked for at the name and its parents, at eight names at most', async t => {
  t.same(policyNames('example.com'), ['_dmarc.example.com'])
  t.same(policyNames('a.b.example.com'), ['_dmarc.a.b.example.com', '_dmarc.b.example.com', '_dmarc.example.com'])
  const deep = policyNames('a.b.c.d.e.f.g.h.i.j.example.com')
  t.same(deep.slice(0, 2), ['_dmarc.a.b.c.d.e.f.g.h.i.j.example.com', '_dmarc.f.g.h.i.j.example.com'])
  t.ok(deep.length <= 8)
})

t.test('the return path is asked for where there is a bounce host, and not when that lies within the domain', async t => {
  t.match(returnPath, { purpose: 'return_path', type: 'CNAME', name: 'jp-bounces.shop.example', value: 'bounces.jetpost.example', required: false })
  t.equal(judge(returnPath, ['bounces.jetpost.example']).state, 'ok')
  for (const host of ['shop.example', 'bounces.shop.example']) t.same(wantedRecords(fresh, host).map(({ purpose }) => purpose), ['dkim', 'dmarc'], host)
  t.equal(wantedRecords(fresh, 'bounces.myshop.example').length, 3)
})

t.test('what DNS shows is kept short, and harmless to a terminal', async t => {
  const { found } = judge(dkim, Array.from({ length: 10_000 }, (_, i) => `${i}\x1b[2J\u009b${'x'.repeat(2000)}`))
  t.equal(found.length, 5)
  for (const text of found) t.match(text, /^\d+\?\[2J\?x+$/)
  t.ok(found.every(text => text.length === 500))
})

t.test('a record nobody has looked at is unchecked', async t => {
  t.match(seenRecords(fresh, null), [{ purpose: 'dkim', name: 'jp1._domainkey.shop.example', value: RIGHT, required: true, state: 'unchecked', found: [] }, { state: 'unchecked' }])
  t.match(seenRecords(after(['wrong', 0]), null), [{ state: 'wrong', found: ['v=DKIM1; p=other'] }, { state: 'missing' }])
})

t.test('names one can own', async t => {
  t.equal(ownableName('Shop.Example'), 'shop.example')
  t.equal(ownableName('bücher.example'), 'xn--bcher-kva.example')
  for (const text of ['localhost', '127.0.0.1', '[::1]', 'sandbox.jetpost.test', 'Sandbox.Jetpost.Test', 'a@b.example', 'shop.example.', '*.shop.example', '', `${'a.'.repeat(100)}example`]) {
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

t.test('a pending domain is looked at each minute, then ever more seldom, at most hourly', async t => {
  const createdMs = Date.parse(fresh.createdAt)
  const watch = { told: true, sinceMs: createdMs + HOUR_MS, luck: 0.5 }
  t.equal(nextLookMs(fresh, { ...watch, lookedMs: null }), createdMs + 60_000)
  const gapAt = (ageMs: number) => nextLookMs(fresh, { ...watch, lookedMs: createdMs + ageMs }) - createdMs - ageMs
  t.same([60_000, 600_000, 1_200_000, 10 * HOUR_MS, 1000 * HOUR_MS].map(gapAt), [60_000, 60_000, 120_000, HOUR_MS, HOUR_MS])
})

t.test('a settled domain is looked at every 6 to 12 hours, hourly in trouble, daily when failed; after a start spread over that', async t => {
  const verified = after(['right', 0])
  const gap = (domain: Domain, luck: number, told = true) => (nextLookMs(domain, { lookedMs: NOW_MS, told, sinceMs: 0, luck }) - NOW_MS) / HOUR_MS
  t.same([gap(verified, 0), gap(verified, 0.5), gap(verified, 0.5, false), gap(STATES['verified, failing']!.domain, 0.5), gap(STATES.failed!.domain, 0.5)], [6, 9, 1, 1, 24])
  t.equal(nextLookMs(verified, { lookedMs: null, told: true, sinceMs: NOW_MS, luck: 0.5 }), NOW_MS + 4.5 * HOUR_MS)
})
