import { createSocket } from 'node:dgram'
import { getServers, setServers } from 'node:dns'
import { once } from 'node:events'
import { t } from 'tap'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { freshAccount } from '../support/servers.ts'

t.test('a name in the hosts file is found while the name servers say nothing', async t => {
  const mute = createSocket('udp4').bind(0, '127.0.0.1')
  t.teardown(() => mute.close())
  await once(mute, 'listening')
  let asked = 0
  mute.on('message', () => asked++)
  const own = getServers()
  setServers([`127.0.0.1:${mute.address().port}`])
  t.teardown(() => setServers(own))

  const url = new URL(freshAccount().natsUrl)
  url.hostname = 'localhost'
  const bus = await connectBus({ url: url.href, creds: null, name: 'test', log: createLog('silent') }, 5000)
  t.teardown(() => bus.close())
  await bus.nc.flush()
  t.equal(asked, 0)
})
