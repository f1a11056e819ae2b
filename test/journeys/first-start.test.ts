import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { readConfig } from '#src/base/config.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import { startApp } from '#src/main.ts'
import { openBus } from '../support/bus.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

t.test('a first start on a port that is taken makes no key: the next one shows it', async t => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => void taken.close())
  const { port } = taken.address() as AddressInfo
  const env = {
    NATS_URL: freshAccount().natsUrl,
    DATABASE_URL: await freshDatabase(t),
    JETPOST_SECRET: SECRET
  }
  const shown: string[] = []
  const options = { log: createLog('silent'), say: () => {}, onFirstKey: (key: string) => void shown.push(key) }
  await t.rejects(startApp(readConfig({ ...env, PORT: String(port) }), options), {
    name: 'Complaint',
    message: `Port ${port} is taken: set PORT to a free one.`
  })
  t.strictSame(shown, [])
  const app = await startApp(readConfig({ ...env, PORT: '0' }), options)
  t.teardown(() => app.stop())
  t.match(shown, [/^jp_live_/])
  t.equal(app.firstKey, shown[0])
})

t.test('an older version does not start on what a newer one has written, and says so', async t => {
  const { bus, natsUrl } = await openBus(t)
  const fact = { id: newId('ev', Date.now()), type: 'key.frozen', version: 1, account: FIRST_ACCOUNT, data: {} }
  await bus.js.publish(`control.${FIRST_ACCOUNT}.key.key_first`, JSON.stringify(fact))
  const env = { NATS_URL: natsUrl, DATABASE_URL: await freshDatabase(t), JETPOST_SECRET: SECRET, PORT: '0' }
  await t.rejects(startApp(readConfig(env), { log: createLog('silent'), say: () => {} }), {
    name: 'Complaint',
    message: 'A newer Jetpost has written to this log, so this version cannot start on it: ' +
      'unknown fact type "key.frozen".'
  })
})
