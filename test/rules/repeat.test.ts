import t from 'tap'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { repeat, type RepeatOptions } from '#src/base/repeat.ts'
import { until } from '../support/wait.ts'

const HOUR_MS = 3_600_000

/** Rounds that are counted, and the errors told. */
function start (options: Partial<RepeatOptions> & Pick<RepeatOptions, 'round'>) {
  const errors: string[] = []
  const count = { rounds: 0 }
  const role = repeat({
    name: 'rounds',
    againMs: 1,
    onError: ({ message }) => errors.push(message),
    ...options,
    async round (signal) {
      count.rounds++
      return await options.round(signal)
    }
  })
  return { role, count, errors }
}

t.test('rounds follow each other, after the pause that each asks for', async t => {
  const beganMs: number[] = []
  const { role, errors } = start({
    round: () => {
      beganMs.push(performance.now())
      return beganMs.length === 2 ? 60 : 1
    }
  })
  t.equal(role.name, 'rounds')
  await until(() => beganMs.length >= 4)
  await role.stop()
  t.ok(beganMs[2]! - beganMs[1]! >= 50)
  t.strictSame(errors, [])
  t.equal(role.unhealthyReason(), null)
})

t.test('two rounds are never under way at once, also when they are woken', async t => {
  let running = 0
  let most = 0
  const { role, count } = start({
    round: async () => {
      most = Math.max(most, ++running)
      role.wake()
      await sleep(5)
      running--
      return HOUR_MS
    }
  })
  await until(() => count.rounds >= 4)
  await role.stop()
  t.equal(most, 1)
})

t.test('stop ends a pause at once, and nothing follows', async t => {
  const { role, count } = start({ round: () => HOUR_MS })
  await until(() => count.rounds === 1)
  await sleep(20)
  const before = performance.now()
  await role.stop()
  t.ok(performance.now() - before < 1000)
  role.wake()
  await sleep(20)
  t.equal(count.rounds, 1)
})

t.test('stop before the first round: there is none', async t => {
  const { role, count } = start({ firstInMs: HOUR_MS, round: () => 1 })
  await role.stop()
  t.equal(count.rounds, 0)
})

t.test('stop in a round tells it, and waits for its end; what fails then is told to nobody', async t => {
  let ended = false
  const { role, count, errors } = start({
    round: async signal => {
      await sleep(HOUR_MS, signal)
      await sleep(50)
      ended = true
      throw new Error('stopped')
    }
  })
  await until(() => count.rounds === 1)
  await role.stop()
  t.ok(ended)
  t.equal(count.rounds, 1)
  t.strictSame(errors, [])
  t.equal(role.unhealthyReason(), null)
})

t.test('a round that fails is told, makes it unhealthy, and comes again until it works', async t => {
  let fails = true
  const { role, count, errors } = start({
    againMs: 1,
    unhealthyReason: ({ doneMs, error }) =>
      error === null ? null : `no round since ${timestamp(doneMs)}: ${error.message}`,
    round: () => {
      if (fails) throw new Error(`no answer ${count.rounds}`)
      return HOUR_MS
    }
  })
  const sinceMs = Date.now()
  await until(() => count.rounds >= 3)
  t.match(role.unhealthyReason(), /^no round since .+Z: no answer \d+$/)
  t.ok(Date.parse(role.unhealthyReason()!.slice(15, 39)) <= sinceMs, 'nothing was done since the start')
  t.strictSame(errors.slice(0, 2), ['no answer 1', 'no answer 2'])
  fails = false
  await until(() => role.unhealthyReason() === null)
  await role.stop()
})

t.test('without words of its own it is unhealthy by the error; a rejection that is no error is one', async t => {
  const { role, errors } = start({ againMs: HOUR_MS, round: async () => await Promise.reject('no') })
  await until(() => errors.length === 1)
  t.equal(role.unhealthyReason(), 'no')
  await role.stop()
})

t.test('a round that is not done comes again after the pause of one that failed, and says nothing', async t => {
  const { role, count, errors } = start({ round: () => (count.rounds < 3 ? null : HOUR_MS) })
  await until(() => count.rounds === 3)
  t.strictSame(errors, [])
  t.equal(role.unhealthyReason(), null)
  await role.stop()
})

t.test('a round that was not done does not hide an earlier failure', async t => {
  const { role, count } = start({
    round: () => {
      if (count.rounds === 1) throw new Error('no answer')
      if (count.rounds === 2) return null
      t.equal(role.unhealthyReason(), 'no answer')
      return HOUR_MS
    }
  })
  await until(() => count.rounds === 3 && role.unhealthyReason() === null)
  await role.stop()
})

t.test('past its deadline a round is told to end and has failed, whatever it gives; the next one waits', async t => {
  const { role, count, errors } = start({
    roundMsMax: 20,
    againMs: 1,
    round: async signal => {
      if (count.rounds > 1) return HOUR_MS
      await sleep(HOUR_MS, signal)
      t.ok(signal.aborted)
      t.equal(role.unhealthyReason(), 'it takes longer than 20 ms', 'while it still goes on')
      await sleep(50)
      t.equal(count.rounds, 1)
      return HOUR_MS
    }
  })
  await until(() => count.rounds === 2 && role.unhealthyReason() === null)
  await role.stop()
  t.strictSame(errors, ['it takes longer than 20 ms'])
})

t.test('what a round throws after its deadline is not told a second time', async t => {
  const { role, count, errors } = start({
    roundMsMax: 20,
    round: async signal => {
      if (count.rounds > 1) return HOUR_MS
      await sleep(HOUR_MS, signal)
      throw new Error('aborted')
    }
  })
  await until(() => count.rounds === 2)
  await role.stop()
  t.strictSame(errors, ['it takes longer than 20 ms'])
})

t.test('waking ends the pause, the longest too, and one before the first round', async t => {
  const { role, count } = start({ firstInMs: Infinity, round: () => Infinity })
  await sleep(30)
  t.equal(count.rounds, 0)
  for (const rounds of [1, 2, 3]) {
    role.wake()
    await until(() => count.rounds === rounds)
    await sleep(10)
    t.equal(count.rounds, rounds)
  }
  await role.stop()
})

t.test('woken during a round, another follows at once; after one that fails, its pause comes first', async t => {
  const { role, count, errors } = start({
    againMs: HOUR_MS,
    round: async () => {
      if (count.rounds <= 2) role.wake()
      await sleep(5)
      if (count.rounds === 2) throw new Error('no answer')
      return HOUR_MS
    }
  })
  await until(() => errors.length === 1)
  await sleep(30)
  t.equal(count.rounds, 2)
  role.wake()
  await until(() => count.rounds === 3)
  await role.stop()
})
