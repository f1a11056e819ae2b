import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { download } from './download.ts'
import type { NatsOrder } from './nats-download.ts'
import { lastLine, run } from './run-command.ts'

const MODULE = 'github.com/nats-io/nats-server/v2'
const BUILD_MS = 600_000
/** Far more than it takes, for a machine that is busy. */
const GO_MS = 30_000
const SAY_EVERY_MS = 5_000

/** Builds nats-server with the Go on this machine and answers the binary's path, or null (after a line that says why,
 *  when there is a Go). Ten minutes at most. Go checks the module against its public checksum database. */
export async function buildNatsServer ({ folder, version, say, signal }: NatsOrder): Promise<string | null> {
  const go = await run('go', ['env', 'GOPROXY', 'GOMODCACHE'], { timeoutMs: GO_MS, signal })
  if (go.code !== 0) return null
  const [goProxy = '', goCache = ''] = go.output.split('\n')
  const env = { ...process.env, CGO_ENABLED: '0', GOBIN: folder, ...await source(goProxy, goCache, version, signal) }
  say(`Building nats-server ${version} with go install (once; it takes a minute or two)`)
  const startMs = performance.now()
  const ticking = setInterval(() => say(`Still building nats-server (${seconds(startMs)} s)`), SAY_EVERY_MS)
  const { code, output } = await run('go', ['install', `${MODULE}@v${version}`], { timeoutMs: BUILD_MS, env, signal })
  clearInterval(ticking)
  if (code === 0) return join(folder, 'nats-server')
  if (!signal.aborted) say(`nats-server could not be built: ${lastLine(output)}`)
  return null
}

// Without a network go would try for minutes. One question to the module proxy finds out in 3 s; then only what go has
// already counts.
async function source (
  goProxy: string,
  goCache: string,
  version: string,
  signal: AbortSignal
): Promise<NodeJS.ProcessEnv> {
  const first = goProxy.split(/[,|]/)[0]!
  if (!first.startsWith('https://')) return {}
  try {
    await download(`${first}/${MODULE}/@v/v${version}.info`, signal)
    return {}
  } catch {
    return { GOPROXY: pathToFileURL(join(goCache, 'cache', 'download')).href }
  }
}

function seconds (startMs: number): number {
  return Math.round((performance.now() - startMs) / 1000)
}
