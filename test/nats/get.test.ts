import { t } from 'tap'
import { createLog } from '#src/base/log.ts'
import { api } from '#src/nats/api.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'
import { freshAccount } from '../support/servers.ts'

t.test('the last sequence under a filter, also when the last message of all is another or is gone', async t => {
  const bus = await connectBus({ url: freshAccount().natsUrl, creds: null, name: 'test', log: createLog('silent') })
  t.teardown(() => bus.close())
  await api(bus, 'STREAM.CREATE.S', { name: 'S', subjects: ['a.>', 'b'], storage: 'memory' })
  const under = async (filter: string) => await lastSequenceUnder(bus, 'S', filter)
  t.equal(await under('a.>'), 0, 'nothing yet')
  for (const subject of ['a.1.x', 'a.2', 'a.1.y', 'b']) await bus.js.publish(subject)
  const expected: Array<[filter: string, seq: number]> = [
    ['a.>', 3],
    ['a.*', 2],
    ['a.1.*', 3],
    ['a.1.x', 1],
    ['*.1.x', 1],
    ['a.1.>', 3],
    ['a.2.>', 0],
    ['b', 4],
    ['b.>', 0],
    ['>', 4],
    ['*', 4],
    ['c.>', 0]
  ]
  for (const [filter, seq] of expected) t.equal(await under(filter), seq, filter)
  await api(bus, 'STREAM.MSG.DELETE.S', { seq: 4 })
  for (const [filter, seq] of [['a.>', 3], ['b', 0]] as const) {
    t.equal(await under(filter), seq, `${filter}, the last of all deleted`)
  }
})

t.test('a server that knows of no leader is asked again; in the end that is no answer', async t => {
  const NO_LEADER = { error: { err_code: 10008, description: 'JetStream system temporarily unavailable' } }
  const answering = (answers: object[]) => ({
    nc: { request: async () => ({ json: () => answers.shift() ?? NO_LEADER }) },
    whenUp: async () => {},
    onBreak: () => () => {},
    upSinceMs: () => 0
  } as unknown as Bus)
  t.equal(await lastSequence(answering([NO_LEADER, NO_LEADER, { state: { last_seq: 7 } }]), 'S'), 7)
  t.ok(isUnanswered(await lastSequence(answering([]), 'S', 300).catch(error => error)))
})
