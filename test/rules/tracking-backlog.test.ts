import t from 'tap'
import { Backlog, type BacklogDrop, type BacklogLimits } from '#src/servers/tracking/backlog.ts'
import { until } from '../support/wait.ts'

const ROOMY: BacklogLimits = {
  jobsMax: 100,
  jobsPerKeyMax: 100,
  concurrency: 10,
  ageMsMax: 60_000,
  pauseMs: 1,
  pauseMsMax: 2
}

/** A job that ends when `release` is called. */
function held () {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { job: () => promise, release: resolve }
}

function open (limits: Partial<BacklogLimits> = {}) {
  const drops: BacklogDrop[] = []
  return { drops, backlog: new Backlog({ ...ROOMY, ...limits }, drop => drops.push(drop)) }
}

t.test('the jobs of one key run one after another in their order, those of other keys beside them', async t => {
  const { backlog, drops } = open()
  const seen: string[] = []
  const first = held()
  const ends = [
    backlog.add('a', async () => {
      await first.job()
      seen.push('a1')
    }),
    backlog.add('a', async () => {
      seen.push('a2')
    }),
    backlog.add('b', async () => {
      seen.push('b1')
    })
  ]
  await ends[2]
  t.strictSame(seen, ['b1'])
  t.equal(backlog.waiting(), 2)
  first.release()
  await Promise.all(ends)
  t.strictSame(seen, ['b1', 'a1', 'a2'])
  t.equal(backlog.waiting(), 0)
  t.strictSame(drops, [])
})

t.test('a job that fails is retried until it succeeds, and the later jobs of its key wait', async t => {
  const { backlog, drops } = open()
  let tries = 0
  const seen: number[] = []
  void backlog.add('a', async () => {
    if (++tries < 5) throw new Error('away')
  })
  await backlog.add('a', async () => {
    seen.push(tries)
  })
  t.strictSame(seen, [5])
  t.strictSame(drops, [])
})

t.test('keys that fail do not keep the others from their turn', async t => {
  const { backlog } = open({ concurrency: 2, pauseMs: 20, pauseMsMax: 20 })
  for (const key of ['a', 'b', 'c', 'd']) {
    void backlog.add(key, async () => {
      throw new Error('away')
    })
  }
  await backlog.add('e', async () => {})
  t.equal(backlog.waiting(), 4)
  await backlog.stop(1)
})

t.test('no more jobs run at once than may', async t => {
  const { backlog } = open({ concurrency: 3 })
  let running = 0
  let most = 0
  await Promise.all(Array.from({ length: 20 }, (_, i) =>
    backlog.add(`key ${i}`, async () => {
      most = Math.max(most, ++running)
      await new Promise(resolve => setImmediate(resolve))
      running--
    })))
  t.equal(most, 3)
})

t.test('a job that finds no room is dropped, counted, and keeps nobody waiting', async t => {
  const { backlog, drops } = open({ jobsMax: 3, jobsPerKeyMax: 2 })
  const { job, release } = held()
  const kept = [backlog.add('a', job), backlog.add('a', job)]
  await backlog.add('a', job)
  t.strictSame(drops, [{ reason: 'full', count: 1, error: null }], 'a key has its own bound')
  kept.push(backlog.add('b', job))
  await backlog.add('c', job)
  t.equal(drops.length, 2, 'and all together have one')
  release()
  await Promise.all(kept)
  await backlog.add('c', async () => {})
  t.equal(drops.length, 2, 'room again')
})

t.test('a job that did not succeed in its time is dropped with its error, and the next has its turn', async t => {
  const { backlog, drops } = open({ ageMsMax: 0 })
  let done = false
  void backlog.add('a', async () => {
    throw new Error('away')
  })
  await backlog.add('a', async () => {
    done = true
  })
  t.ok(done)
  t.match(drops, [{ reason: 'late', count: 1, error: { message: 'away' } }])
})

t.test('a stop makes another attempt, also of a job that waits for its next one', async t => {
  const { backlog, drops } = open({ pauseMs: 60_000, pauseMsMax: 60_000 })
  let tries = 0
  const ended = backlog.add('a', async () => {
    if (++tries === 1) throw new Error('away')
  })
  await until(() => tries === 1)
  await backlog.stop(10_000)
  await ended
  t.equal(tries, 2)
  t.strictSame(drops, [])
})

t.test('a stop ends in its time, and reports how many jobs it drops', async t => {
  const { backlog, drops } = open()
  const { job, release } = held()
  const left = [
    backlog.add('a', job),
    backlog.add('a', job),
    backlog.add('b', async () => {
      throw new Error('away')
    })
  ]
  await backlog.stop(20)
  await Promise.all(left)
  t.strictSame(drops, [{ reason: 'stopped', count: 3, error: null }])
  await backlog.add('c', async () => {
    throw new Error('must not run')
  })
  t.strictSame(drops.at(-1), { reason: 'stopped', count: 1, error: null })
  release()
  await job()
  t.equal(backlog.waiting(), 0)
})
