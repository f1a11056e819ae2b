import { t } from 'tap'
import { createLog } from '#src/base/log.ts'
import { api } from '#src/nats/api.ts'
import { connectBus } from '#src/nats/connect.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
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
