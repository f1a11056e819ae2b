import t from 'tap'
import { retryOnConflict, retryOnConflictOf } from '#src/actions/retry-on-conflict.ts'
import { Conflict } from '#src/nats/errors.ts'

t.test('who was overtaken begins again, knowing what the others did', async t => {
  const steps: string[] = []
  let left = 3
  const directory = {
    catchUp: async () => {
      steps.push('catch up')
      return true
    }
  }
  const result = await retryOnConflictOf(directory, async () => {
    steps.push('try')
    if (left-- > 0) throw new Conflict('moved on')
    return 'done'
  })
  t.equal(result, 'done')
  t.strictSame(steps, ['try', 'catch up', 'try', 'catch up', 'try', 'catch up', 'try'])
})

t.test('after twelve rivals it is told; anything else at once', async t => {
  let tries = 0
  await t.rejects(
    retryOnConflict(async () => {
      tries++
      throw new Conflict('moved on')
    }),
    { name: 'Conflict' }
  )
  t.equal(tries, 13)
  tries = 0
  await t.rejects(
    retryOnConflict(async () => {
      tries++
      throw new TypeError('ours')
    }),
    { name: 'TypeError' }
  )
  t.equal(tries, 1)
})
