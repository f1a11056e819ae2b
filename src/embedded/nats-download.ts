import { chmodSync, writeFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { asError } from '#src/base/errors.ts'
import { readAtMost } from '#src/base/read.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { lastLine, run } from './run-command.ts'

const CONNECT_MS = 3_000
const TOTAL_MS = 120_000
const REDIRECTS_MAX = 5
const SIZE_BYTES_MAX = 64 * 1024 * 1024

/** Fetches an https URL (redirects followed, HTTPS_PROXY respected). Rejects after 3 s without a connection, 2 min in
 *  all, above 64 MB, on any status but 200 and on abort. */
export async function download (url: string, signal: AbortSignal): Promise<Buffer> {
  const agent = new Agent({ proxyEnv: process.env })
  const total = AbortSignal.any([signal, AbortSignal.timeout(TOTAL_MS)])
  try {
    return await readAtMost(await follow(url, agent, total), SIZE_BYTES_MAX, 'the answer is larger than 64 MB')
  } finally {
    agent.destroy()
  }
}

async function follow (url: string, agent: Agent, signal: AbortSignal): Promise<IncomingMessage> {
  let next = url
  for (let i = 0; i <= REDIRECTS_MAX; i++) {
    const response = await get(next, agent, signal)
    if (response.statusCode === 200) return response
    response.destroy()
    const { location } = response.headers
    if (location === undefined) throw new Error(`${new URL(next).host} answered ${response.statusCode}`)
    next = new URL(location, next).href
  }
  throw new Error('too many redirects')
}

// The clock runs until TLS stands (or, through a proxy, until the answer): Node's own timeout counts idleness, not
// connecting.
function get (url: string, agent: Agent, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent, signal, headers: { 'user-agent': 'jetpost' } })
    const connecting = setTimeout(
      () => asked.destroy(new Error(`no connection to ${new URL(url).host} within 3 s`)),
      CONNECT_MS
    )
    const connected = (): void => clearTimeout(connecting)
    asked.on('socket', socket => socket.once('secureConnect', connected))
    asked.once('response', response => {
      connected()
      resolve(response)
    })
    asked.once('error', error => {
      connected()
      reject(error)
    })
    asked.end()
  })
}

const RELEASES = 'https://github.com/nats-io/nats-server/releases/download'
const UNPACK_MS = 60_000
/** Node's names for processors → the release's. */
const ARCHITECTURES: Record<string, string> = { x64: 'amd64', arm64: 'arm64', arm: 'arm7', ia32: '386', s390x: 's390x' }

export interface NatsOrder {
  /** To work in; it may hold what another source left. */
  folder: string
  version: string
  say: (line: string) => void
  signal: AbortSignal
}

/**
 * Downloads the official release for this platform and answers the binary's path, or null (after a line that says why)
 * when it cannot.
 *
 * The archive is checked against the SHA256SUMS file of the same release, fetched over https from the same place. That
 * guards against a truncated or damaged archive, not against a bad origin: for that the sums would have to be pinned
 * here.
 */
export async function downloadNatsServer ({ folder, version, say, signal }: NatsOrder): Promise<string | null> {
  const architecture = ARCHITECTURES[process.arch]
  if (architecture === undefined) return null
  const name = `nats-server-v${version}-${process.platform}-${architecture}`
  say(`Downloading nats-server ${version} from github.com (once)`)
  try {
    const sums = await download(`${RELEASES}/v${version}/SHA256SUMS`, signal)
    const archive = await download(`${RELEASES}/v${version}/${name}.tar.gz`, signal)
    check(archive, sums.toString('utf8'), `${name}.tar.gz`)
    return await unpack(archive, folder, name, signal)
  } catch (error) {
    if (!signal.aborted) say(`nats-server could not be downloaded from github.com: ${asError(error).message}`)
    return null
  }
}

function check (archive: Buffer, sums: string, name: string): void {
  const line = sums.split('\n').map(text => text.trim().split(/\s+\*?/)).find(([, file]) => file === name)
  if (line === undefined) throw new Error(`the release has no checksum for ${name}`)
  if (sha256Hex(archive) !== line[0]) throw new Error(`${name} does not match its checksum`)
}

async function unpack (archive: Buffer, folder: string, name: string, signal: AbortSignal): Promise<string> {
  const file = join(folder, 'release.tar.gz')
  writeFileSync(file, archive)
  const args = ['-xzf', file, '-C', folder, '--strip-components=1', `${name}/nats-server`]
  const { code, output } = await run('tar', args, { timeoutMs: UNPACK_MS, signal })
  if (code !== 0) throw new Error(`tar: ${lastLine(output)}`)
  const binary = join(folder, 'nats-server')
  chmodSync(binary, 0o755)
  return binary
}
