import { readFileSync } from 'node:fs'
import t from 'tap'
import { Refusal } from '#streams/define.ts'
import {
  decide,
  nextStep,
  retryAfterS,
  RETRY,
  type RecipientCommand,
  type Decision,
  type DecisionContext,
  type Outcome
} from '#streams/email/decide.ts'
import type { RecipientFact } from '#streams/email/facts.ts'
import { evolve, newRecipient, type RecipientState } from '#streams/email/state.ts'

const NOW_MS = Date.parse('2026-11-21T10:00:00.000Z')
const EXPIRES_AT = '2026-11-24T10:00:00.000Z'
const TRANSACTION = { host: 'mx.example.net', tls: null, via: 'relay' as const, ms: 12 }
const YES = { code: 250, enhanced: '2.0.0', text: '250 2.0.0 ok' }
const NO = { code: 550, enhanced: '5.1.1', text: '550 5.1.1 no such user' }
const CLAIM: RecipientCommand = {
  name: 'Claim',
  worker: 'w_1',
  leaseUntil: '2026-11-21T10:11:00.000Z',
  messageId: '<m@example.com>',
  date: '2026-11-21T10:00:00.000Z',
  renderer: '1',
  digest: 'd',
  due: false
}

function given (more: Partial<DecisionContext> = {}): DecisionContext {
  return {
    nowMs: NOW_MS,
    request: { expiresAt: EXPIRES_AT, onDoubt: 'retry' },
    random: () => 0.5,
    retry: RETRY,
    voidClaim: null,
    ...more
  }
}

function record (attempt: number, outcome: Outcome, claim: string | null = null): RecipientCommand {
  return { name: 'RecordOutcome', claim, attempt, stage: 'data', transaction: TRANSACTION, outcome }
}

const deferred: Outcome = {
  kind: 'deferred',
  reply: null,
  error: 'no answer',
  class: 'networkerror',
  hostTrouble: false
}
const delivered: Outcome = { kind: 'delivered', reply: YES }
const bounced: Outcome = { kind: 'bounced', reply: NO, status: '5.1.1', error: null, class: 'userunknown' }

/** The state after these commands, each of which must be allowed; facts get the ids f1, f2 … */
function after (commands: RecipientCommand[], context = given(), scheduledAt: string | null = null): RecipientState {
  return commands.reduce((state, command) => {
    const decision = decide(state, command, context)
    if (decision === null || decision instanceof Refusal) throw new Error(`${command.name} was not allowed`)
    return evolve(state, asFact(decision, state.facts + 1))
  }, newRecipient(scheduledAt))
}

function asFact (decision: Decision, n: number): RecipientFact {
  return { id: `f${n}`, ...decision } as unknown as RecipientFact
}

const doubt = (claim: string, cause: 'sender' | 'line'): RecipientCommand => ({ name: 'Doubt', claim, cause })
const hold = given({ request: { expiresAt: EXPIRES_AT, onDoubt: 'hold' } })

/** `claim` = the one that outcomes come under. */
const STATES: Record<
  string,
  { state: RecipientState, attempt: number, claim: string | null, voidClaim?: string, nowMs?: number }
> = {
  scheduled: { state: newRecipient('2026-11-22T10:00:00.000Z'), attempt: 1, claim: null },
  queued: { state: newRecipient(null), attempt: 1, claim: null },
  'sending, own': { state: after([CLAIM]), attempt: 1, claim: 'f1' },
  'sending, void': { state: after([CLAIM]), attempt: 2, claim: null, voidClaim: 'f1' },
  "sending, another's": { state: after([CLAIM]), attempt: 1, claim: null },
  'sending, lease over': {
    state: after([CLAIM]),
    attempt: 1,
    claim: null,
    nowMs: Date.parse('2026-11-21T10:16:00.001Z')
  },
  deferred: { state: after([record(1, deferred)]), attempt: 2, claim: null },
  in_doubt: { state: after([CLAIM, doubt('f1', 'line')]), attempt: 2, claim: null },
  'in_doubt, held': { state: after([CLAIM, doubt('f1', 'line')], hold), attempt: 1, claim: 'f1' },
  delivered: { state: after([CLAIM, record(1, delivered, 'f1')]), attempt: 1, claim: 'f1' },
  bounced: { state: after([record(1, bounced)]), attempt: 1, claim: null },
  failed: { state: after([{ name: 'Fail', reason: 'expired', detail: null }]), attempt: 1, claim: null },
  suppressed: { state: after([{ name: 'Suppress', reason: 'bounce' }]), attempt: 1, claim: null },
  canceled: { state: after([{ name: 'Cancel' }]), attempt: 1, claim: null },
  erased: { state: { ...after([CLAIM]), erased: true }, attempt: 1, claim: 'f1' }
}

const COLUMNS: Record<string, (attempt: number, claim: string | null) => RecipientCommand> = {
  Claim: () => CLAIM,
  delivered: (attempt, claim) => record(attempt, delivered, claim),
  deferred: (attempt, claim) => record(attempt, deferred, claim),
  bounced: (attempt, claim) => record(attempt, bounced, claim),
  Report: () => ({
    name: 'RecordReport',
    report: 'in_1',
    host: null,
    reply: null,
    status: '5.1.1',
    error: 'no such user',
    class: 'userunknown'
  }),
  Arrival: () => ({ name: 'RecordArrival', host: 'mx.example.net', reply: YES }),
  Doubt: () => doubt('f1', 'sender'),
  Fail: () => ({ name: 'Fail', reason: 'expired', detail: null }),
  Suppress: () => ({ name: 'Suppress', reason: 'complaint' }),
  Cancel: () => ({ name: 'Cancel' }),
  Reschedule: () => ({
    name: 'Reschedule',
    scheduledAt: '2026-11-23T10:00:00.000Z',
    expiresAt: '2026-11-26T10:00:00.000Z'
  }),
  Retry: () => ({ name: 'Retry', expiresAt: '2026-11-27T10:00:00.000Z' })
}

t.test('every transition is as the table in the README says', async t => {
  const readme = readFileSync(new URL('../../streams/email/README.md', import.meta.url), 'utf8')
  const [head, , ...rows] = readme.split('\n').filter(line => line.startsWith('|')).slice(
    0,
    2 + Object.keys(STATES).length
  )
    .map(line => line.slice(1, -1).split('|').map(cell => cell.trim()))
  t.same(rows.map(([name]) => name), Object.keys(STATES))
  t.same(head!.slice(1), Object.keys(COLUMNS))
  for (const [name, ...cells] of rows) {
    for (const [i, cell] of cells.entries()) {
      const { state, attempt, claim, voidClaim, nowMs = NOW_MS } = STATES[name!]!
      const decision = decide(
        state,
        COLUMNS[head![i + 1]!]!(attempt, claim),
        given({ nowMs, voidClaim: voidClaim ?? null })
      )
      const result = decision === null
        ? '·'
        : decision instanceof Refusal
        ? 'no'
        : evolve(state, asFact(decision, 9)).status
      t.equal(result, cell, `${name}, then ${head![i + 1]}`)
    }
  }
})

t.test('every copy has the Date of the first claim', async t => {
  const state = after([CLAIM, doubt('f1', 'sender')])
  const again = decide(state, { ...CLAIM, date: '2026-11-21T10:20:00.000Z' } as RecipientCommand, given())
  t.match(again, { type: 'email.attempted', data: { attempt: 2, date: '2026-11-21T10:00:00.000Z' } })
})

t.test('a dead sender is followed by a copy at once, a dead line by one after the first gap', async t => {
  t.match(decide(after([CLAIM]), doubt('f1', 'sender'), given()), {
    data: { held: false, nextAttemptAt: '2026-11-21T10:00:00.000Z' }
  })
  t.match(decide(after([CLAIM]), doubt('f1', 'line'), given()), {
    data: { held: false, nextAttemptAt: '2026-11-21T10:05:00.000Z' }
  })
})

t.test('the second doubt of the line is held, and the fifth of any cause', async t => {
  const once = [CLAIM, doubt('f1', 'line'), CLAIM]
  t.match(decide(after(once), doubt('f3', 'line'), given()), { data: { held: true, nextAttemptAt: null } })
  t.match(decide(after(once), doubt('f3', 'sender'), given()), { data: { held: false } })
  const four = ['f1', 'f3', 'f5', 'f7'].flatMap(claim => [CLAIM, doubt(claim, 'sender')])
  t.match(decide(after([...four, CLAIM]), doubt('f9', 'sender'), given()), { data: { held: true } })
  t.match(decide(after([CLAIM]), doubt('f1', 'sender'), hold), { data: { held: true } })
})

t.test('a late reply to an overtaken attempt counts only when it is a delivery', async t => {
  const state = after([CLAIM, doubt('f1', 'sender'), CLAIM])
  t.equal(decide(state, record(1, deferred, 'f1'), given()), null)
  t.equal(decide(state, record(1, bounced, 'f1'), given()), null)
  t.equal(decide(state, doubt('f1', 'line'), given()), null)
  t.match(decide(state, record(1, delivered, 'f1'), given()), { type: 'email.delivered', data: { attempt: 1 } })
  const refusedSince = after([CLAIM, doubt('f1', 'sender'), record(2, deferred)])
  t.equal(decide(refusedSince, record(1, deferred, 'f1'), given()), null)
  t.match(decide(refusedSince, record(1, delivered, 'f1'), given()), { type: 'email.delivered', data: { attempt: 1 } })
})

t.test('a relay that has delivered a doubted copy ends the doubt, also where a later one was put off', async t => {
  const arrival: RecipientCommand = { name: 'RecordArrival', host: 'mx.example.net', reply: YES }
  const putOff = after([CLAIM, doubt('f1', 'sender'), CLAIM, record(2, deferred, 'f3')])
  t.match(decide(putOff, arrival, given()), { type: 'email.delivered', data: { attempt: 2, via: 'relay', reply: YES } })
  t.equal(decide(after([CLAIM, record(1, deferred, 'f1')]), arrival, given()), null, 'there was no doubt')
})

t.test("what came before the dot leaves another's live claim and a held doubt alone", async t => {
  for (const attempt of [1, 2]) {
    t.equal(decide(after([CLAIM]), record(attempt, deferred), given()), null)
    t.equal(decide(after([CLAIM]), record(attempt, bounced), given({ voidClaim: 'f0' })), null)
    t.equal(decide(after([CLAIM, doubt('f1', 'line')], hold), record(attempt, deferred), hold), null)
    t.equal(decide(after([CLAIM, doubt('f1', 'line')], hold), record(attempt, bounced), hold), null)
  }
  t.equal(
    decide(after([CLAIM]), record(1, deferred, 'f0'), given()),
    null,
    'nor does a reply under a claim of the same number that never was'
  )
  t.equal(decide(after([CLAIM]), doubt('f0', 'line'), given()), null)
})

t.test('a report waits for the outcome until five minutes after the lease; a later outcome is void', async t => {
  const report = COLUMNS.Report!(1, null)
  const leaseOverMs = Date.parse('2026-11-21T10:16:00.000Z')
  t.match(decide(after([CLAIM]), report, given({ nowMs: leaseOverMs })), { code: 'claimed' })
  t.match(decide(after([CLAIM]), report, given({ nowMs: leaseOverMs + 1 })), {
    type: 'email.bounced',
    data: { attempt: 1, report: 'in_1' }
  })
  const bouncedSince = after([CLAIM, report], given({ nowMs: leaseOverMs + 1 }))
  t.equal(decide(bouncedSince, record(1, delivered, 'f1'), given()), null)
  t.equal(decide(bouncedSince, doubt('f1', 'sender'), given()), null)
})

t.test('the first deferral is marked as such', async t => {
  const first = decide(newRecipient(null), record(1, deferred), given())
  t.match(first, { data: { first: true, nextAttemptAt: '2026-11-21T10:05:00.000Z' } })
  t.match(decide(after([record(1, deferred)]), record(2, deferred), given()), {
    data: { first: false, nextAttemptAt: '2026-11-21T10:10:00.000Z' }
  })
})

t.test('the gaps double from 5 minutes to 4 hours, give or take a fifth', async t => {
  t.same([1, 2, 3, 4, 5, 6, 7, 8, 500].map(attempt => retryAfterS(attempt, () => 0.5)), [
    300,
    600,
    1200,
    2400,
    4800,
    9600,
    14_400,
    14_400,
    14_400
  ])
  t.equal(retryAfterS(1, () => 0), 240)
  t.equal(Math.round(retryAfterS(1, () => 0.999999)), 360)
})

t.test('while the host is in trouble the gaps stop growing at 20 minutes', async t => {
  const trouble: Outcome = { ...deferred, hostTrouble: true }
  const state = after(Array.from({ length: 8 }, (_, i) => record(i + 1, trouble)))
  t.equal(state.nextAttemptAt, '2026-11-21T10:20:00.000Z')
})

t.test('mail that was not tried waits for as long as the host is left alone, and no attempt is counted', async t => {
  const untried = { code: 421, enhanced: '4.3.2' }
  const alone: Outcome = { ...deferred, hostTrouble: true, untried: { ...untried, until: '2026-11-21T10:00:40.000Z' } }
  t.match(decide(newRecipient(null), record(1, alone), given()), {
    data: { attempt: 1, nextAttemptAt: '2026-11-21T10:00:40.000Z', first: true, untried }
  })
  const state = after([record(1, alone), record(1, alone)])
  t.match(state, { status: 'deferred', attempts: 0, deferrals: 2 })
  t.match(decide(state, record(1, deferred), given()), {
    data: { attempt: 1, nextAttemptAt: '2026-11-21T10:05:00.000Z', first: false }
  })
  const soon = given({ request: { expiresAt: '2026-11-21T10:00:01.000Z', onDoubt: 'retry' } })
  t.match(decide(newRecipient(null), record(1, alone), soon), { data: { nextAttemptAt: '2026-11-21T10:00:01.000Z' } })
})

t.test('no attempt is put off past the end of the budget', async t => {
  const soon = given({ request: { expiresAt: '2026-11-21T10:01:00.000Z', onDoubt: 'retry' } })
  t.match(decide(newRecipient(null), record(1, deferred), soon), {
    data: { nextAttemptAt: '2026-11-21T10:01:00.000Z' }
  })
})

t.test('a schedule holds until its time, a new one in its place, and both give a budget of their own', async t => {
  const scheduledAt = '2026-11-22T10:00:00.000Z'
  const scheduled = newRecipient(scheduledAt)
  const long = given({ request: { expiresAt: '2026-11-25T10:00:00.000Z', onDoubt: 'retry' } })
  t.same(nextStep(scheduled, long, false), { do: 'schedule', atMs: Date.parse(scheduledAt) })
  t.same(nextStep(scheduled, { ...long, nowMs: Date.parse(scheduledAt) }, false), { do: 'send' })
  const moved: RecipientCommand = {
    name: 'Reschedule',
    scheduledAt: '2026-11-30T10:00:00.000Z',
    expiresAt: '2026-12-03T10:00:00.000Z'
  }
  const later = after([moved], long, scheduledAt)
  t.same(nextStep(later, { ...long, nowMs: Date.parse(scheduledAt) }, false), {
    do: 'schedule',
    atMs: Date.parse(moved.scheduledAt)
  })
  t.same(
    nextStep(later, { ...long, nowMs: Date.parse(moved.scheduledAt) }, false),
    { do: 'send' },
    "the request's own budget is over, the new one is not"
  )
  t.same(nextStep(later, { ...long, nowMs: Date.parse(moved.expiresAt) }, false), { do: 'fail' })
  t.equal(decide(later, moved, long), null, 'the same again is no fact')
})

t.test('what is sent again has a new budget, goes at once and counts its attempts on', async t => {
  const again = after([CLAIM, record(1, bounced, 'f1'), { name: 'Retry', expiresAt: '2026-12-30T10:00:00.000Z' }])
  t.match(again, { status: 'queued', attempts: 1, expiresAt: '2026-12-30T10:00:00.000Z' })
  t.same(nextStep(again, given({ nowMs: Date.parse(EXPIRES_AT) }), false), { do: 'send' })
  t.match(decide(again, CLAIM, given()), { data: { attempt: 2 } })
  t.match(decide(again, record(2, deferred), given({ nowMs: Date.parse(EXPIRES_AT) })), {
    data: { nextAttemptAt: '2026-11-24T10:10:00.000Z' }
  }, 'the old budget binds nobody')
})

t.test('an earlier copy that arrives after a cancel is a delivery; nothing else is recorded any more', async t => {
  const state = after([CLAIM, doubt('f1', 'sender'), record(2, deferred), { name: 'Cancel' }])
  t.equal(state.status, 'canceled')
  t.match(decide(state, record(1, delivered, 'f1'), given()), { type: 'email.delivered' })
  t.equal(decide(state, record(1, bounced, 'f1'), given()), null)
  t.equal(decide(state, record(3, delivered), given()), null)
})

t.test('what a worker does next', async t => {
  const step = (state: RecipientState, nowMs = NOW_MS, gone = false, voidClaim: string | null = null) =>
    nextStep(state, given({ nowMs, voidClaim }), gone)
  t.same(step(newRecipient(null)), { do: 'send' })
  t.same(step(after([CLAIM])), { do: 'wait', untilMs: NOW_MS + 660_000 })
  t.same(step(after([CLAIM]), NOW_MS, true), { do: 'doubt', claim: 'f1' })
  t.same(step(after([CLAIM]), NOW_MS + 660_001), { do: 'doubt', claim: 'f1' })
  t.same(step(after([CLAIM]), NOW_MS, false, 'f1'), { do: 'send' })
  t.same(step(after([record(1, deferred)])), { do: 'schedule', atMs: NOW_MS + 300_000 })
  t.same(step(after([record(1, deferred)]), NOW_MS + 300_000), { do: 'send' })
  t.same(step(after([CLAIM, doubt('f1', 'sender')])), { do: 'send' })
  t.same(step(after([CLAIM, doubt('f1', 'sender')], hold)), { do: 'nothing' })
  t.same(step(after([CLAIM, record(1, delivered, 'f1')])), { do: 'nothing' })
  t.same(step(newRecipient(null), Date.parse(EXPIRES_AT)), { do: 'fail' })
  t.same(
    step(after([CLAIM]), NOW_MS + 1000, false),
    { do: 'wait', untilMs: NOW_MS + 660_000 },
    'a live claim outlives the budget'
  )
})
