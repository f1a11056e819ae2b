import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'nats'
import { createLog } from '#src/base/log.ts'
import { findNatsServer } from '#src/embedded/nats-binary.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { supervise } from '#src/embedded/supervise.ts'
import type { Command } from '#src/embedded/supervised-process.ts'
import { accountNames, natsConfig } from './nats-config.ts'
import type { Opening, TestNats } from './opening.ts'

const ANSWER_TIMEOUT_MS = 1000

/** Starts the nats-server that `npm start` would use, with the tests' own configuration. It dies with this process. */
export async function startNatsBinary ({ folder, say, signal }: Opening): Promise<TestNats> {
  const dataDir = join(folder, 'nats')
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const file = await findNatsServer({ natsBin: process.env.JETPOST_NATS_BIN || null, dataDir, say, signal })
  const password = randomUUID()
  const port = await choosePort(null, null, '')
  const server = await supervise({
    name: 'nats-server',
    logFile: join(dataDir, 'nats-server.log'),
    prepare: async () => command(file, dataDir, natsConfig(`127.0.0.1:${port}`, dataDir, password)),
    answers: () => answers(port, password)
  }, { log: createLog('warn'), say, signal })
  return {
    host: '127.0.0.1',
    port,
    password,
    about: `embedded binary ${file}`,
    containerId: null,
    stop: () => server.stop()
  }
}

function command (file: string, dataDir: string, config: string): Command {
  const configPath = join(dataDir, 'nats-server.conf')
  writeFileSync(configPath, config, { mode: 0o600 })
  const logFile = join(dataDir, 'nats-server.log')
  return {
    file,
    args: ['--config', configPath],
    env: process.env,
    logFile,
    stopSignal: 'SIGTERM',
    forceSignal: 'SIGKILL'
  }
}

async function answers (port: number, password: string): Promise<boolean> {
  try {
    const nc = await connect({
      servers: `127.0.0.1:${port}`,
      user: accountNames()[0]!,
      pass: password,
      timeout: ANSWER_TIMEOUT_MS,
      reconnect: false
    })
    await nc.close()
    return true
  } catch {
    return false
  }
}
