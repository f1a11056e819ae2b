import t from 'tap'
import { HostLimits } from '#src/workers/sender/site.ts'

const MINUTE = 60_000

function withOpen (count: number): HostLimits {
  const limits = new HostLimits()
  for (let i = 0; i < count; i++) limits.opened('mx')
  return limits
}

t.test('hosts that refuse one more connection have as many as stand', async t => {
  const limits = withOpen(3)
  t.notOk(limits.isFull('mx', 0))
  t.ok(limits.refused('mx', 0))
  limits.closed('mx')
  t.ok(limits.isFull('mx', 0))
  t.notOk(limits.isFull('other', 0))
  limits.closed('mx')
  t.notOk(limits.isFull('mx', 0))
})

t.test('after five minutes one more is tried: refused it is five minutes more, taken there is no limit', async t => {
  const limits = withOpen(3)
  limits.refused('mx', 0)
  limits.closed('mx')
  t.ok(limits.isFull('mx', 5 * MINUTE - 1))
  t.notOk(limits.isFull('mx', 5 * MINUTE))
  limits.opened('mx')
  t.ok(limits.isFull('mx', 5 * MINUTE), 'one')
  limits.refused('mx', 5 * MINUTE)
  limits.closed('mx')
  t.ok(limits.isFull('mx', 10 * MINUTE - 1))
  limits.opened('mx')
  limits.connected('mx')
  t.notOk(limits.isFull('mx', 10 * MINUTE))
})

t.test('the only connection that fails says nothing of a limit, and ends one', async t => {
  const limits = withOpen(2)
  t.ok(limits.refused('mx', 0))
  limits.closed('mx')
  t.notOk(limits.refused('mx', 0))
  limits.closed('mx')
  for (let i = 0; i < 5; i++) limits.opened('mx')
  t.notOk(limits.isFull('mx', 0))
})
