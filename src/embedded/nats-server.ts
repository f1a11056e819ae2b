import { readdirSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { Complaint } from '#src/base/errors.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Kept } from './kept.ts'
import type { Command } from './supervised-process.ts'
import { stopOrphan } from './orphan.ts'
import { choosePort } from './ports.ts'
import { privateFolder, writePrivateFile } from './private-file.ts'
import { serverEnv } from './run-command.ts'
import type { Plan } from './supervise.ts'

const MEBIBYTE = 1024 * 1024
const ANSWER_MS = 1_000
const INFO_BYTES_MAX = 16 * 1024

export interface NatsOptions {
  /** The nats-server to run. */
  file: string
  /** Absolute; what a running one is recognised by. */
  dataDir: string
  /** JETPOST_NATS_PORT */
  port: number | null
  kept: Kept
}

/** nats-server on 127.0.0.1 with JetStream, as the supervisor starts it. */
export function natsPlan ({ file, dataDir, port, kept }: NatsOptions): Plan {
  const folder = join(dataDir, 'nats')
  const configFile = join(folder, 'nats-server.conf')
  const logFile = join(dataDir, 'nats-server.log')
  const name = `jetpost-${sha256Hex(kept.nats.password).slice(0, 12)}`
  return {
    name: 'nats-server',
    logFile,
    async prepare (first) {
      await endOrphan(folder, configFile)
      privateFolder(join(folder, 'jetstream'))
      if (first) {
        kept.nats.port = await choosePort(port, kept.nats.port, 'JETPOST_NATS_PORT')
        kept.save()
      }
      writePrivateFile(configFile, config(folder, name, kept))
      return command(file, configFile, logFile)
    },
    answers: () => answersAs(name, kept.nats.port!)
  }
}

/** `nats://user:password@host:port` of the embedded nats-server. */
export function natsUrl (kept: Kept): string {
  return `nats://jetpost:${kept.nats.password}@127.0.0.1:${kept.nats.port}`
}

// JetStream does not lock its store: two servers on it would ruin it, so an orphan must be gone first.
async function endOrphan (folder: string, configFile: string): Promise<void> {
  const pid = readPid(join(folder, 'nats-server.pid'))
  if (pid === null) return
  const gone = await stopOrphan({ pid, mark: `--config ${configFile}`, stopSignal: 'SIGTERM', forceSignal: 'SIGKILL' })
  if (!gone) {
    throw new Complaint(
      `A nats-server that an earlier Jetpost left behind (process ${pid}) does not end: kill it by hand.`
    )
  }
}

function readPid (path: string): number | null {
  try {
    return Number.parseInt(readFileSync(path, 'utf8'), 10) || null
  } catch {
    return null
  }
}

function command (file: string, configFile: string, logFile: string): Command {
  const env = { ...serverEnv(), GOMEMLIMIT: `${memoryMebibytes()}MiB` }
  return { file, args: ['--config', configFile], env, logFile, stopSignal: 'SIGTERM', forceSignal: 'SIGKILL' }
}

/** A quarter of the machine's (or container's) memory, 512 MiB to 8 GiB. A soft limit: above it Go collects more
 *  eagerly. */
function memoryMebibytes (): number {
  const limitBytes = process.constrainedMemory() || Infinity
  return Math.round(Math.min(Math.max(Math.min(totalmem(), limitBytes) / 4 / MEBIBYTE, 512), 8192))
}

// max_pending must exceed max_payload many times over: a pull of large messages waits there, and a consumer above it is
// cut off as slow. A client that is busy for a while (a projector's transaction, a garbage collection) is slow, not
// dead: hence 30 s of write_deadline.
function config (folder: string, name: string, { nats }: Kept): string {
  return `# Written by Jetpost at every start: changes here are lost.
server_name: "${name}"
listen: "127.0.0.1:${nats.port}"
pid_file: ${JSON.stringify(join(folder, 'nats-server.pid'))}
authorization { user: "jetpost", password: "${nats.password}" }
max_payload: 8MB
max_pending: 256MB
write_deadline: "30s"
jetstream {
  store_dir: ${JSON.stringify(folder)}
  sync_interval: always
  max_memory_store: ${Math.round(memoryMebibytes() / 4)}MB
  max_file_store: ${storeMebibytes(folder)}MB
}
`
}

/** What JetStream may fill: all it has and all that is free but a tenth of the disk (2 GiB at most). The server's
 *  default, three quarters of what happens to be free, would shrink from start to start; a full disk makes it drop
 *  JetStream, a full store makes it say no. */
function storeMebibytes (folder: string): number {
  const { bavail, blocks, bsize } = statfsSync(folder)
  const spareBytes = Math.min(blocks * bsize / 10, 2048 * MEBIBYTE)
  const storeBytes = usedBytes(join(folder, 'jetstream')) + bavail * bsize - spareBytes
  return Math.max(Math.floor(storeBytes / MEBIBYTE), 64)
}

function usedBytes (folder: string): number {
  let bytes = 0
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0
  }
  return bytes
}

/** The server greets with INFO {…}; it listens only after JetStream has recovered, and its name tells it from a
 *  stranger on our port. */
function answersAs (name: string, port: number): Promise<boolean> {
  return new Promise(resolve => {
    let greeting = ''
    const socket = connect({ host: '127.0.0.1', port, timeout: ANSWER_MS })
    const end = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      greeting += chunk
      if (greeting.includes('\n') || greeting.length > INFO_BYTES_MAX) end(greeting.includes(`"server_name":"${name}"`))
    })
    socket.once('error', () => end(false)).once('timeout', () => end(false)).once('close', () => end(false))
  })
}
