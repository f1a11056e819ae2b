// A Jetpost that runs nothing but the embedded servers of the folder in argv[2], to be killed: prints their URLs, then
// waits.
import { createLog } from '#src/base/log.ts'
import { startEmbedded } from '#src/embedded/start.ts'

const embedded = await startEmbedded({
  dataDir: process.argv[2]!,
  nats: true,
  postgres: true,
  natsBin: process.env.JETPOST_NATS_BIN ?? null,
  log: createLog('warn'),
  say: () => {}
})
console.log(JSON.stringify({ natsUrl: embedded.natsUrl, databaseUrl: embedded.databaseUrl }))
process.once('SIGTERM', () => void embedded.stop().then(() => process.exit(0)))
setInterval(() => {}, 60_000)
