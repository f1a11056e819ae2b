import { Agent, request } from 'node:https'
import type { IncomingMessage } from 'node:http'
import { readAtMost } from '#src/base/read.ts'

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
