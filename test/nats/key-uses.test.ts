import t from 'tap'
import { api } from '#src/nats/api.ts'
import { KeyUses, USE_EVERY_MS } from '#src/nats/key-uses.ts'
import { openBus } from '../support/bus.ts'
import { until } from '../support/wait.ts'

const NOW_MS = Date.parse('2026-11-24T12:00:00.000Z')
const [one, two, never] = ['one', 'two', 'never'].map(name => ({ id: `key_${name}`, account: 'acc_one' }))

const { bus } = await openBus(t)

t.test('a use is stored once in five minutes, and every process knows it', async t => {
  const [here, there] = [new KeyUses(bus), new KeyUses(bus)]
  t.strictSame(await there.lastOf([one!, two!, never!]), new Map())
  t.strictSame(await there.lastOf([]), new Map())
  here.note(one!, NOW_MS)
  t.strictSame(await here.lastOf([one!]), new Map([[one!.id, NOW_MS]]), 'known here before it is stored')
  await until(async () => (await there.lastOf([one!])).get(one!.id) === NOW_MS)
  here.note(one!, NOW_MS + USE_EVERY_MS - 1)
  here.note(two!, NOW_MS + 1)
  await until(async () => (await there.lastOf([two!])).size === 1)
  t.strictSame(await there.lastOf([one!, two!, never!]), new Map([[one!.id, NOW_MS], [two!.id, NOW_MS + 1]]))
  here.note(one!, NOW_MS + USE_EVERY_MS)
  await until(async () => (await there.lastOf([one!])).get(one!.id) === NOW_MS + USE_EVERY_MS)
  const { state } = await api<{ state: { messages: number } }>(bus, 'STREAM.INFO.USES', undefined)
  t.equal(state.messages, 2, 'one message a key')
})

t.test('another account has keys of its own', async t => {
  const uses = new KeyUses(bus)
  t.strictSame(await uses.lastOf([{ id: one!.id, account: 'acc_two' }]), new Map())
})

t.test('where NATS is away, noting does nothing, and asking says so', async t => {
  const { bus: away } = await openBus(t)
  const uses = new KeyUses(away)
  await away.close()
  t.doesNotThrow(() => uses.note(one!, NOW_MS))
  await t.rejects(uses.lastOf([one!]))
})
