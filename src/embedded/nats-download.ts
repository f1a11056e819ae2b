import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { asError } from '#src/base/errors.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { download } from './download.ts'
import { lastLine, run } from './run-command.ts'

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
