import t from 'tap'
import { Refusal } from '#streams/define.ts'
import { decide, RETRY, type RecipientCommand, type DecisionContext } from '#streams/email/decide.ts'
import type { RecipientFact } from '#streams/email/facts.ts'
import { evolve, newRecipient, type RecipientState } from '#streams/email/state.ts'
import { faultIn, historyStepOf, type HistoryStep } from '#src/workers/projector/verify/history.ts'
import { randomOf } from '../projections/view.ts'

const transaction = { host: null, tls: null, via: 'relay' as const, ms: 1 }
const reply = { code: 450, enhanced: null, text: 'later' }
const time = new Date(0).toISOString()

/** Whatever anybody may want to record of a recipient. */
function anyCommand (state: RecipientState, random: () => number): RecipientCommand {
  const among = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]!
  const attempt = among([state.attempts, state.attempts + 1])
  const claim = among([null, state.claim?.id ?? null])
  const outcome = among([
    { kind: 'delivered' as const, reply: { ...reply, code: 250 } },
    { kind: 'deferred' as const, reply, error: null, class: 'x', hostTrouble: false },
    { kind: 'bounced' as const, reply, status: null, error: null, class: 'x' }
  ])
  const untried = {
    kind: 'deferred' as const,
    reply: null,
    error: 'x',
    class: 'x',
    hostTrouble: true,
    untried: { code: 421, enhanced: null, until: time }
  }
  return among<RecipientCommand>([
    { name: 'RecordOutcome', claim: null, attempt, stage: 'connect', transaction, outcome: untried },
    { name: 'Claim', worker: 'w', leaseUntil: time, messageId: '', date: time, renderer: '', digest: '', due: false },
    { name: 'Claim', worker: 'w', leaseUntil: time, messageId: '', date: time, renderer: '', digest: '', due: false },
    {
      name: 'RecordOutcome',
      claim,
      attempt: claim === null ? attempt : state.claim!.attempt,
      stage: 'data',
      transaction,
      outcome
    },
    {
      name: 'RecordOutcome',
      claim: state.claim?.id ?? null,
      attempt: state.claim?.attempt ?? 1,
      stage: 'data',
      transaction,
      outcome
    },
    { name: 'RecordReport', report: 'in_1', host: null, reply: null, status: null, error: null, class: 'x' },
    { name: 'Doubt', claim: state.claim?.id ?? '', cause: among(['line', 'sender']) },
    { name: 'Fail', reason: 'expired', detail: null },
    { name: 'Suppress', reason: 'bounce' },
    { name: 'Cancel' },
    { name: 'Reschedule', scheduledAt: new Date(Math.floor(random() * 1e12)).toISOString(), expiresAt: time },
    { name: 'Retry', expiresAt: time }
  ])
}

/** What a recipient may have come to, by the rules. */
function history (random: () => number): RecipientFact[] {
  const facts: RecipientFact[] = []
  let state = newRecipient(random() < 0.5 ? null : time)
  for (let tries = 0; tries < 25; tries++) {
    const given: DecisionContext = {
      nowMs: 1e12,
      request: { expiresAt: time, onDoubt: random() < 0.8 ? 'retry' : 'hold' },
      random,
      retry: RETRY,
      voidClaim: random() < 0.3 ? state.claim?.id ?? null : null
    }
    const decision = decide(state, anyCommand(state, random), given)
    if (decision === null || decision instanceof Refusal) continue
    const fact = {
      id: `ev_${facts.length}`,
      type: decision.type,
      data: { ...decision.data, sequence: facts.length + 1 }
    } as unknown as RecipientFact
    state = evolve(state, fact)
    facts.push(fact)
  }
  return facts
}

t.test('whatever the rules let happen is no fault, also when its beginning is gone by age', async t => {
  const random = randomOf(7)
  const seen = new Set<string>()
  for (let i = 0; i < 5000; i++) {
    const facts = history(random)
    for (const { type } of facts) seen.add(type)
    const steps = facts.map(historyStepOf)
    const fault = faultIn(steps, false) ?? faultIn(steps.slice(Math.floor(random() * steps.length)), true)
    if (fault !== null) t.fail(fault, { facts: facts.map(({ type, data }) => [type, data]) })
  }
  t.equal(seen.size, 10, 'every fact was among them')
})

const step = (type: string, more: Partial<HistoryStep> = {}): HistoryStep => ({
  type: `email.${type}` as HistoryStep['type'],
  sequence: 0,
  attempt: 0,
  held: false,
  report: false,
  ...more
})
const claim = (attempt: number) => step('attempted', { attempt })
const numbered = (steps: HistoryStep[]) =>
  steps.map((each, i) => ({ ...each, sequence: each.sequence === 0 ? i + 1 : each.sequence }))

t.test('what they do not is one', async t => {
  const cases: Array<[string, HistoryStep[], RegExp]> = [
    [
      'a second verdict',
      [claim(1), step('delivered', { attempt: 1 }), step('bounced', { attempt: 1 })],
      /^email.bounced follows email.delivered/
    ],
    [
      'a verdict twice',
      [claim(1), step('delivered', { attempt: 1 }), step('delivered', { attempt: 1 })],
      /^email.delivered follows email.delivered/
    ],
    [
      'an outcome of a claim that nobody made',
      [claim(1), step('delivered', { attempt: 3 })],
      /of attempt 3, and 1 were made/
    ],
    ['a claim too many', [claim(1), step('deferred', { attempt: 1 }), claim(4)], /as attempt 4, and 1 were made/],
    ['a claim after the end', [step('suppressed'), claim(1)], /^email.attempted follows email.suppressed/],
    ['a deferral over a newer claim', [
      claim(1),
      step('in_doubt', { attempt: 1 }),
      claim(2),
      step('deferred', { attempt: 1 })
    ], /^email.deferred follows email.attempted/],
    [
      'a copy although it is held',
      [claim(1), step('in_doubt', { attempt: 1, held: true }), claim(2)],
      /^email.attempted follows email.in_doubt/
    ],
    ['a cancel while it is sent', [claim(1), step('canceled')], /^email.canceled follows email.attempted/],
    [
      'another time after the first attempt',
      [claim(1), step('deferred', { attempt: 1 }), step('rescheduled')],
      /^email.rescheduled follows email.deferred/
    ],
    [
      'once more although it arrived',
      [claim(1), step('delivered', { attempt: 1 }), step('retry_requested')],
      /^email.retry_requested follows email.delivered/
    ],
    ['a doubt about nothing', [step('in_doubt', { attempt: 1 })], /^email.in_doubt follows nothing/],
    [
      'a report about what never went out',
      [step('bounced', { attempt: 0, report: true })],
      /^email.bounced follows nothing/
    ],
    ['anything after the erasure', [step('erased'), claim(1)], /^email.attempted follows email.erased/],
    ['a number twice', [claim(1), step('delivered', { attempt: 1, sequence: 1 })], /has number 1 and is fact 2/],
    [
      'a number left out',
      [claim(1), step('delivered', { attempt: 1, sequence: 3 })],
      /has number 3, and only 1 are before it/
    ]
  ]
  for (const [what, steps, says] of cases) t.match(faultIn(numbered(steps), false) ?? '', says, what)
  t.equal(
    faultIn(
      numbered([
        claim(1),
        step('opened'),
        step('delivered', { attempt: 1, sequence: 2 }),
        step('bounced', { attempt: 1, report: true, sequence: 4 })
      ]),
      false
    ),
    null,
    'marks are numbered with the others'
  )
  t.equal(
    faultIn([step('opened', { sequence: 5 }), step('opened', { sequence: 4 })], true),
    null,
    'what is gone by age is not missed'
  )
})
