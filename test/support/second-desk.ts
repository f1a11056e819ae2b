import type { Desk } from '#src/actions/desk.ts'
import { followDirectory } from '#src/actions/directory.ts'
import { openLedger } from '#src/actions/ledger.ts'
import { systemClock } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import { createVault } from '#src/base/secret.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { connectBus } from '#src/nats/connect.ts'
import type { Ending } from './servers.ts'

/** A desk as another node has it: its own connection, its own directory, the same log. */
export async function openSecondDesk (t: Ending, natsUrl: string): Promise<Desk> {
  const log = createLog('silent')
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'second desk', log })
  const directory = followDirectory(bus, log)
  t.teardown(async () => {
    await directory.stop()
    await bus.close()
  })
  await directory.catchUp(10_000)
  const vault = createVault('a-secret-for-tests-with-at-least-32-characters')
  return { ledger: openLedger(bus, systemClock), directory, blobs: await openBlobs(bus), vault, webhookAllowPrivate: true }
}
