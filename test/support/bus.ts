import { createLog } from '#src/base/log.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { ensureTopology, type EnsureOptions } from '#src/nats/ensure.ts'
import { freshAccount, type Ending } from './servers.ts'

const DAY_MS = 86_400_000

/** A connection to a NATS account of one's own with every stream in place; closed with the test. */
export async function openBus (
  t: Ending,
  natsUrl = freshAccount().natsUrl
): Promise<{ bus: Bus, topology: EnsureOptions, natsUrl: string }> {
  const log = createLog('silent')
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'test', log })
  t.teardown(() => bus.close())
  const topology = { retention: { factsMs: 90 * DAY_MS, contentMs: 30 * DAY_MS }, replicas: 1, log }
  await ensureTopology(bus, topology)
  return { bus, topology, natsUrl }
}
