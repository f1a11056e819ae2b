import type { Services } from '#src/actions/services.ts'
import { followDirectory } from '#src/actions/directory.ts'
import { openServices } from '#src/actions/open-services.ts'
import { systemClock } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { SECRET } from './secret.ts'
import type { Ending } from './servers.ts'

/** A set of services as another node has it: its own connection, its own directory, the same log. */
export async function openSecondServices (t: Ending, natsUrl: string): Promise<Services> {
  const log = createLog('silent')
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'second services', log })
  const directory = followDirectory(bus, log)
  t.teardown(async () => {
    await directory.stop()
    await bus.close()
  })
  await directory.catchUp(10_000)
  const config = {
    webhookAllowPrivate: true,
    requireVerifiedDomains: false,
    bounceDomain: null,
    smtpUrl: null,
    hostname: null,
    trackingUrl: 'http://localhost:8080',
    contentRetentionMs: 30 * 86_400_000,
    factsRetentionMs: 90 * 86_400_000,
    dns: null
  }
  return await openServices({ bus, clock: systemClock, directory, secrets: [SECRET], config })
}
