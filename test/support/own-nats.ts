import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startSupervised, type Command } from '#src/embedded/supervised-process.ts'
import { findNatsServer } from '#src/embedded/nats-binary.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { accountNames, natsConfig } from './nats-config.ts'
import type { Ending } from './servers.ts'

/** A nats-server of the test's own, for tests that take it away; ended with the test. */
export interface OwnNats {
  natsUrl: string
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Starts it again on the same port and store; does not wait until it answers. */
  start(): Promise<void>
  /** Its lines stay, and nothing is answered until `thaw`. */
  freeze(): void
  thaw(): void
}

/** How a nats-server is started with this configuration; what it writes lies in `folder`. */
export async function natsCommand (folder: string, config: string): Promise<Command> {
  const path = join(folder, 'nats-server.conf')
  writeFileSync(path, config)
  const file = await findNatsServer({
    natsBin: process.env.JETPOST_NATS_BIN || null,
    dataDir: folder,
    say: () => {},
    signal: AbortSignal.timeout(60_000)
  })
  return {
    file,
    args: ['--config', path],
    env: process.env,
    logFile: join(folder, 'nats-server.log'),
    stopSignal: 'SIGTERM',
    forceSignal: 'SIGKILL'
  }
}

export async function openOwnNats (t: Ending): Promise<OwnNats> {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-nats-'))
  t.teardown(async () => rmSync(folder, { recursive: true, force: true }))
  const port = await choosePort(null, null, '')
  const command = await natsCommand(folder, natsConfig(`127.0.0.1:${port}`, folder, 'secret'))
  let server = await startSupervised(command)
  t.teardown(() => server.stop())
  return {
    natsUrl: `nats://${accountNames()[0]}:secret@127.0.0.1:${port}`,
    async kill () {
      process.kill(server.pid, 'SIGKILL')
      await server.exited
    },
    async start () {
      server = await startSupervised(command)
    },
    freeze: () => void process.kill(server.pid, 'SIGSTOP'),
    thaw: () => void process.kill(server.pid, 'SIGCONT')
  }
}
