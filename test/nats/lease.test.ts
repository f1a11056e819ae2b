import t from 'tap'
import type { Bus } from '#src/nats/connect.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { LeaseTable } from '#src/nats/lease.ts'
import { openBus } from '../support/bus.ts'
import { until } from '../support/wait.ts'

const { bus } = await openBus(t)
const NAMES = ['0', '1', '2', '3', '4', '5']
const LEASE_MS = 10_000

const heldBy = (table: LeaseTable) => NAMES.filter(name => table.isHeld(name))

/** A kind of leases of the test's own. */
function opening (kind: string) {
  return (holder: string, { nc = bus.nc, leaseMs = LEASE_MS } = {}) =>
    new LeaseTable({ ...bus, nc } as Bus, { kind, names: NAMES, holder, leaseMs })
}

/** A round, which goes on with the next where nobody answers in time. */
async function roundOf (table: LeaseTable): Promise<void> {
  await table.round().catch(error => {
    if (!isUnanswered(error)) throw error
  })
}

/** A connection whose requests wait for `meanwhile`, which may refuse them. */
function slowed (meanwhile: () => Promise<void>): Bus['nc'] {
  return new Proxy(bus.nc, {
    get (target, name) {
      const value = Reflect.get(target, name)
      if (name !== 'request') return typeof value === 'function' ? value.bind(target) : value
      return async (...args: Parameters<Bus['nc']['request']>) => {
        const answer = await target.request(...args)
        await meanwhile()
        return answer
      }
    }
  })
}

t.test('who is alone has all; a second one gets half, one lease after the other', async t => {
  const open = opening('share')
  const [one, two] = [open('one'), open('two')]
  await one.round()
  t.same(heldBy(one), NAMES)
  await two.round()
  t.same(heldBy(two), [], 'nothing is free')
  for (let i = 0; i < 3; i++) {
    const { surplus } = await one.round()
    await one.free(surplus!)
    await two.round()
    t.same([...heldBy(one), ...heldBy(two)].toSorted(), NAMES, 'each has one holder')
  }
  t.equal((await one.round()).surplus, null)
  t.same([heldBy(one), heldBy(two)], [['0', '1', '2'], ['3', '4', '5']])
  await one.leave()
  await two.round()
  t.same(heldBy(two), NAMES, 'what is given back is free at once')
})

t.test('who renews no more holds nothing before another one does', async t => {
  const open = opening('silent')
  const [one, two] = [open('one', { leaseMs: 3000 }), open('two', { leaseMs: 3000 })]
  await roundOf(one)
  await until(async () => {
    await roundOf(two)
    t.notOk(NAMES.some(name => one.isHeld(name) && two.isHeld(name)))
    return heldBy(two).length === NAMES.length
  })
  await roundOf(one)
  t.same(heldBy(one), [], 'and takes nothing back')
})

t.test('a lease is held while it is renewed, and when the answer is lost', async t => {
  let meanwhile = async () => {}
  const table = opening('renewed')('one', { nc: slowed(() => meanwhile()) })
  await table.round()
  const seen: number[] = []
  meanwhile = async () => {
    seen.push(heldBy(table).length)
  }
  await table.round()
  t.same(new Set(seen), new Set([NAMES.length]))
  meanwhile = async () => {
    throw new Error('TIMEOUT')
  }
  await t.rejects(table.round())
  t.same(heldBy(table), NAMES)
  meanwhile = async () => {}
  await table.round()
  t.same(heldBy(table), NAMES, 'what the lost answer had changed is learned')
})
