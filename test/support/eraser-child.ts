// A Jetpost that does nothing but forget people, on the servers in argv[2] and argv[3], to be killed: sends "ready",
// then works until then.
import { readConfig } from '#src/base/config.ts'
import { createLog } from '#src/base/log.ts'
import { startApp } from '#src/main.ts'
import { SECRET } from './secret.ts'

process.on('disconnect', () => process.exit())
const config = readConfig({
  NATS_URL: process.argv[2]!,
  DATABASE_URL: process.argv[3]!,
  JETPOST_SECRET: SECRET,
  JETPOST_REQUIRE_VERIFIED_DOMAINS: 'false',
  JETPOST_ROLES: 'scheduler',
  PORT: '0'
})
await startApp(config, { log: createLog('silent'), say: () => {} })
process.send?.('ready')
