import type { Asker } from '#src/actions/services.ts'
import { followDirectory, type LiveDirectory } from '#src/actions/directory.ts'
import { createFactLog, roleActor, stamp, type FactLog } from '#src/actions/fact-log.ts'
import { createWebhook, type CreatedWebhook, type WebhookServices } from '#src/actions/webhook.ts'
import { sleep } from '#src/base/backoff.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { createVault } from '#src/base/secret.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { ensureTopology, keepTopology, repair } from '#src/nats/ensure.ts'
import { follow } from '#src/nats/follow.ts'
import { startWebhooks, type WebhooksOptions } from '#src/workers/webhooks/webhook-workers.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { Refusal, type Recorded } from '#streams/define.ts'
import type { Owed } from '#streams/delivery/facts.ts'
import { EmailBounced, EmailDeferred, EmailDelivered } from '#streams/email/facts.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { WebhookSettings } from '#streams/webhook/decide.ts'
import { EVENT_TYPES, type EventType } from '#streams/webhook/facts.ts'
import { SECRET } from './secret.ts'
import { freshAccount, type Ending } from './servers.ts'

const ACCOUNT = 'acc_01test'
const RETENTION = { factsMs: 90 * 86_400_000, contentMs: 30 * 86_400_000 }
/** The contract's gaps, a hundred times as fast. */
const QUICK_GAPS_S = [0.05, 0.3, 1.2, 6, 18, 36, 72, 144, 216, 360]

/** After a process of its own was killed its partitions are free so soon. */
export const LEASE_MS = 2000

const log = createLog(process.env.JETPOST_LOG_LEVEL ?? 'silent')
const topology = { retention: RETENTION, replicas: 1, log }

/** How a process of its own runs the role. */
export interface ChildOptions {
  gapsS?: readonly number[]
  timeoutMs?: number
  /** What a dead process held comes again after so long, 30 s by plan. The consumers must have been made so. */
  ackWaitMs?: number
  /** Its partitions go to another after so long. */
  leaseMs?: number
}

/** Before consumers are made, and in every process that works on them. */
export function hurry (ackWaitMs: number): void {
  for (const plan of Object.values(consumerPlans).flat()) plan.ack_wait = ackWaitMs * 1e6
}

/** The role alone with a connection of its own, as a process of its own runs it; never stopped. */
export async function runHooks (natsUrl: string, { ackWaitMs, ...options }: ChildOptions = {}): Promise<void> {
  if (ackWaitMs !== undefined) hurry(ackWaitMs)
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'hook child', log })
  const directory = followDirectory(bus, log)
  keepTopology(bus, topology)
  // The server may be killed meanwhile, and with it the streams in memory.
  const isReady = async () => {
    await ensureTopology(bus, topology)
    return await directory.catchUp(5000)
  }
  while (!await isReady().catch(() => false)) await sleep(100)
  const factLog = createFactLog(bus, systemClock)
  const repairIt = (plan: ConsumerPlan) => repair(bus, plan, topology)
  const quick = { mayCallPrivate: () => true, gapsS: QUICK_GAPS_S, timeoutMs: 2000, leaseMs: LEASE_MS, ...options }
  startWebhooks({
    factLog,
    directory,
    vault: createVault(SECRET),
    log,
    repair: repairIt,
    ...quick
  })
}

/** An event that was put into the log, with the bytes that must reach the endpoint. */
export interface Happened {
  id: string
  email: string
  body: string
}

interface Extra {
  email?: string
  first?: boolean
}

export interface HookRig {
  natsUrl: string
  factLog: FactLog
  directory: LiveDirectory
  /** What actions on endpoints need. */
  services: WebhookServices
  /** Makes an endpoint and waits until it is known here. */
  listen(
    url: string,
    events?: readonly EventType[],
    settings?: Partial<WebhookSettings> & { startAt?: string }
  ): Promise<CreatedWebhook>
  /** Appends facts of new recipients, or of one email when given. */
  happen(type: 'delivered' | 'bounced' | 'deferred', extra?: Extra): Promise<Happened>
  /** Starts the role; stopped with the test, or before. */
  start(options?: Partial<WebhooksOptions>): Role
  /** All facts of WEBHOOKS once `enough` says so. */
  facts(enough: (facts: AnyFact[]) => boolean, timeoutMs?: number): Promise<AnyFact[]>
  /** FactLog with a connection of their own, as another process would have. */
  another(): Promise<FactLog>
  asker: Asker
}

/** Streams, directory and the webhook role, without the rest of the app: facts go straight into the log. */
export async function openHookRig (t: Ending, natsUrl = freshAccount().natsUrl): Promise<HookRig> {
  const buses: Bus[] = []
  const connect = async () => {
    const bus = await connectBus({ url: natsUrl, creds: null, name: 'hook rig', log })
    buses.push(bus)
    return bus
  }
  const bus = await connect()
  await ensureTopology(bus, topology)
  const factLog = createFactLog(bus, systemClock)
  const directory = followDirectory(bus, log)
  const vault = createVault(SECRET)
  const services: WebhookServices = { factLog, directory, vault, settings: { mayCallPrivate: () => true } }
  const roles = new Set<Role>()
  const asker = { account: ACCOUNT, correlation: 'req_test', actor: roleActor('test') }
  t.teardown(async () => {
    await Promise.all([...roles].map(role => role.stop()))
    await directory.stop()
    await Promise.all(buses.map(each => each.close()))
  })

  async function listen (
    url: string,
    events: readonly EventType[] = EVENT_TYPES,
    settings: Partial<WebhookSettings> & { startAt?: string } = {}
  ): Promise<CreatedWebhook> {
    const made = await createWebhook(services, asker, {
      url,
      events: [...events],
      paused: false,
      concurrency: null,
      batch: null,
      everyDeferral: false,
      bounces: 'all',
      mode: 'both',
      ...settings
    })
    if (made instanceof Refusal) throw new Error(made.message)
    if (!await directory.reached(made.seq, 5000)) throw new Error('the directory did not see the endpoint')
    return made
  }

  function start (options: Partial<WebhooksOptions> = {}): Role {
    const role = startWebhooks({
      factLog,
      directory,
      vault,
      log,
      mayCallPrivate: () => true,
      random: () => 0,
      gapsS: QUICK_GAPS_S,
      timeoutMs: 2000,
      repair: plan => repair((options.factLog ?? factLog).bus, plan, topology),
      ...options
    })
    const kept: Role = {
      ...role,
      stop: async () => {
        if (roles.delete(kept)) await role.stop()
      }
    }
    roles.add(kept)
    return kept
  }

  return {
    natsUrl,
    factLog,
    directory,
    services,
    listen,
    start,
    asker,
    another: async () => createFactLog(await connect(), systemClock),
    happen: (type, extra) => happen(factLog, type, extra),
    facts: (enough, timeoutMs) => readWebhooks(bus, enough, timeoutMs)
  }
}

/** What is owed to endpoints: each `delivery.requested`, and each delivery without one, which went directly. */
export function askedIn (facts: AnyFact[]): Owed[] {
  const requested = facts.filter(fact => fact.type === 'delivery.requested').map(({ data }) => data)
  const key = ({ delivery, replay }: Owed) => `${delivery} ${replay}`
  const known = new Set(requested.map(key))
  const tried = facts.filter(fact => fact.type === 'delivery.attempted').map(({ data }) => data)
  return [...requested, ...new Map(tried.filter(owed => !known.has(key(owed))).map(owed => [key(owed), owed])).values()]
}

async function happen (
  factLog: FactLog,
  type: 'delivered' | 'bounced' | 'deferred',
  extra: Extra = {}
): Promise<Happened> {
  const { email = newId('em', Date.now()), first = true } = extra
  const nowMs = Date.now()
  const id = newId('ev', nowMs)
  const eventType = type === 'deferred' ? 'email.bounced' : `email.${type}`
  const body = JSON.stringify({
    id,
    type: eventType,
    created_at: timestamp(nowMs),
    data: {
      email_id: email,
      from: 'hello@example.com',
      to: 'ada@example.net',
      subject: 'Grüße ☃',
      tags: [],
      metadata: {}
    }
  })
  const recipient = { email, n: 0, request: 1, to: 'ada@example.net', sequence: 1, event: body }
  const transaction = { attempt: 1, host: 'mx.example.net', tls: null, via: 'relay' as const, ms: 12 }
  const reply = { code: 250, enhanced: null, text: '250 ok' }
  const cause = { account: ACCOUNT, correlation: 'req_test', causation: null }
  const shared = { ...recipient, ...transaction, stage: 'data' as const, class: 'other' }
  const fact = {
    delivered: () => stamp(EmailDelivered, cause, { ...recipient, ...transaction, reply }, nowMs, id),
    bounced: () => stamp(EmailBounced, cause, { ...shared, reply, status: null, error: null, report: null }, nowMs, id),
    deferred: () =>
      stamp(EmailDeferred, cause, { ...shared, reply, error: null, nextAttemptAt: timestamp(nowMs), first }, nowMs, id)
  }[type]()
  await factLog.append([{ fact }])
  return { id, email, body }
}

/** Reads WEBHOOKS from its start until it says enough. */
async function readWebhooks (bus: Bus, enough: (facts: AnyFact[]) => boolean, timeoutMs = 30_000): Promise<AnyFact[]> {
  const done = new AbortController()
  const found: AnyFact[] = []
  void sleep(timeoutMs, done.signal).then(() => done.abort())
  const { signal } = done
  const options = {
    stream: 'WEBHOOKS',
    filter: 'webhook.>',
    afterSeq: 0,
    batchMax: 500,
    gather: () => sleep(5),
    signal,
    onError: () => {}
  }
  for await (const batch of follow(bus, options)) {
    found.push(...batch.map(({ fact }: Recorded<AnyFact>) => fact))
    if (enough(found)) {
      done.abort()
      return found
    }
  }
  throw new Error(`WEBHOOKS has not enough after ${timeoutMs} ms: ${JSON.stringify(countByType(found))}`)
}

function countByType (facts: AnyFact[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { type } of facts) counts[type] = (counts[type] ?? 0) + 1
  return counts
}
