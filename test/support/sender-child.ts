/** The sender role in a process of its own, to be paused or killed: `sender-child.ts <NATS URL> <SMTP URL>`. Tells its
 *  parent by IPC once it runs, and ends with it. */
import { createFactLog } from '#src/actions/fact-log.ts'
import { openSuppressionStore } from '#src/actions/suppression-store.ts'
import { systemClock } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import { connectBus } from '#src/nats/connect.ts'
import { repair } from '#src/nats/ensure.ts'
import { startHeartbeats } from '#src/nats/heartbeats.ts'
import { startSender } from '#src/workers/sender/sender.ts'
import { openDns } from '#src/dns/resolve.ts'
import { composePlainly, log, topology } from './sender-rig.ts'

process.on('disconnect', () => process.exit())
const [natsUrl, smtpUrl] = [process.argv[2]!, process.argv[3]!]
const bus = await connectBus({ url: natsUrl, creds: null, name: 'sender child', log })
const worker = newId('w', Date.now())
startSender({
  factLog: createFactLog(bus, systemClock),
  blobs: await openBlobs(bus),
  suppressions: openSuppressionStore(bus),
  hasDomain: async () => true,
  isSuspended: () => false,
  compose: composePlainly,
  heartbeats: startHeartbeats(bus, worker),
  worker,
  repair: plan => repair(bus, plan, topology),
  smtpUrl,
  catcherUrl: smtpUrl,
  dns: openDns(null),
  mxPort: 25,
  mxAllowPrivate: true,
  connections: 20,
  hostname: 'sender.test',
  log
})
process.send?.('running')
