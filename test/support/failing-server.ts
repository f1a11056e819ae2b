import { emptyDirectory } from '#streams/directory.ts'
import type { Services } from '#src/actions/services.ts'
import { systemClock } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import { createVault, sha256Hex } from '#src/base/secret.ts'
import { buildHttp, type HttpOptions } from '#src/http.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { createMetrics } from '#src/servers/ops/metrics.ts'
import { API_KEY, FROM } from './app.ts'
import { feedbackSourceEntry, keyEntry, webhookEntry } from './entries.ts'

export const key = keyEntry({ id: 'key_1', account: 'acc_1', hash: sha256Hex(API_KEY) })
export const webhook = webhookEntry()
export const SOURCE_SECRET = 'a-secret-of-a-source'
export const source = feedbackSourceEntry({ hash: sha256Hex(SOURCE_SECRET) })
const settings = {
  mayCallPrivate: () => true,
  requireVerifiedDomains: false,
  smtpUrl: null,
  bounceDomain: null,
  contentRetentionMs: 30 * 86_400_000
}
const suppressions = { standing: async (_account: string, addresses: string[]) => addresses.map(() => []) }
export const mail = { from: FROM, to: 'ada@example.com', subject: 's', text: 't' }
export const hook = { url: 'https://a.example/hook', events: ['email.delivered'] }

/** What NATS says of a subject without a message. */
const NO_MESSAGE = { headers: { code: 404, status: '404' } }
const bus = {
  nc: { request: async () => NO_MESSAGE },
  whenUp: async () => {},
  onBreak: () => () => {},
  upSinceMs: () => 0
}

/** How the servers behind the API fail. */
export interface BackendFailure {
  catchUp?: boolean
  /** Whether the directory comes to see a write; as `catchUp` when left out. */
  reached?: boolean
  /** What storing large content does; without it, it is stored. */
  put?: () => Promise<void>
  /** What an append does; without it the fact is stored. */
  append?: () => Promise<number[]>
  caughtUp?: () => Promise<boolean>
}

/** The HTTP side alone: what is behind it fails on command, as no real server does. */
export function failingServer (
  { catchUp = true, reached = catchUp, put = async () => {}, append = async () => [7], caughtUp = async () => false }:
    BackendFailure,
  options: Partial<HttpOptions> = {}
) {
  const now = emptyDirectory()
  now.keysByHash.set(key.hash, key)
  now.webhooks.set(webhook.id, webhook)
  now.feedbackSources.set(source.id, source)
  const directory = { now, catchUp: async () => catchUp, reached: async () => reached }
  const factLog = { clock: systemClock, append, bus }
  const services = {
    directory,
    factLog,
    vault: createVault('x'.repeat(32)),
    settings,
    suppressions,
    keyUses: { note () {}, lastOf: async () => new Map() },
    blobs: { put }
  } as unknown as Services
  const reads = { pool: {}, checkpoints: { caughtUp } } as unknown as Reads
  const counters = { count: async () => ({ position: 1, exact: true }), inexact: () => 0 }
  const quotas = { take: async () => true, giveBack () {}, taken: async () => 0 }
  return buildHttp({
    api: { services, counters, quotas, reads },
    operations: null,
    catcher: null,
    mailboxDoor: null,
    checks: [],
    metrics: createMetrics(),
    publicUrl: 'http://localhost:8080',
    trustProxy: [],
    log: createLog('silent'),
    ...options
  })
}

/** Sends one request to such a server. */
export async function askFailing (
  method: 'GET' | 'POST' | 'DELETE',
  url: string,
  body: object | undefined,
  failure: BackendFailure,
  headers: Record<string, string> = {}
) {
  const http = failingServer(failure)
  const own = { authorization: `Bearer ${API_KEY}` }
  const answer = await http.inject({ method, url, headers: { ...own, ...headers }, payload: body })
  await http.close()
  return answer
}
