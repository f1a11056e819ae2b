import { followDirectory, type LiveDirectory } from '#src/actions/directory.ts'
import { createFactLog, roleActor, stamp, type FactLog } from '#src/actions/fact-log.ts'
import { createWebhook } from '#src/actions/webhook.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { createLog, type Log } from '#src/base/log.ts'
import { createVault } from '#src/base/secret.ts'
import { connectBus } from '#src/nats/connect.ts'
import { ensureTopology, repair } from '#src/nats/ensure.ts'
import { Refusal } from '#streams/define.ts'
import { EmailDelivered } from '#streams/email/facts.ts'
import type { ConsumerPlan } from '#streams/topology.ts'
import type { WebhookSettings } from '#streams/webhook/decide.ts'

const RETENTION = { factsMs: 90 * 86_400_000, contentMs: 30 * 86_400_000 }

/** What the role and those who feed it share: streams, the directory, the seal of secrets. */
export interface Ground {
  factLog: FactLog
  directory: LiveDirectory
  vault: ReturnType<typeof createVault>
  log: Log
  repair(plan: ConsumerPlan): Promise<boolean>
}

export async function openGround (natsUrl: string, name: string): Promise<Ground> {
  const log = createLog('info')
  const topology = { retention: RETENTION, replicas: 1, log }
  const bus = await connectBus({ url: natsUrl, creds: null, name, log })
  await ensureTopology(bus, topology)
  const directory = followDirectory(bus, log)
  if (!await directory.catchUp(10_000)) throw new Error('the directory did not catch up')
  return {
    factLog: createFactLog(bus, systemClock),
    directory,
    vault: createVault('a secret of the bench, at least 32 characters'),
    log,
    repair: plan => repair(bus, plan, topology)
  }
}

/** An endpoint that listens to deliveries. `concurrency` null = the dispatcher's choice. */
export async function makeEndpoint (
  ground: Ground,
  account: string,
  url: string,
  concurrency: number | null
): Promise<void> {
  const asker = { account, correlation: 'bench', actor: roleActor('test') }
  const settings: WebhookSettings = {
    url,
    events: ['email.delivered'],
    paused: false,
    concurrency,
    batch: null,
    everyDeferral: false,
    bounces: 'all',
    mode: 'both'
  }
  const made = await createWebhook({ ...ground, settings: { mayCallPrivate: () => true } }, asker, settings)
  if (made instanceof Refusal) throw new Error(made.message)
}

/** An event's id and the bytes of its callback, of a usual size. */
export function makeEvent (): { id: string, email: string, body: string } {
  const nowMs = Date.now()
  const [id, email] = [newId('ev', nowMs), newId('em', nowMs)]
  const data = {
    email_id: email,
    from: 'news@example.com',
    to: 'ada.lovelace@example.net',
    subject: 'Our news of this week, and what comes next',
    smtp_response: '250 2.0.0 Ok: queued as 4b1f2c3d4e5f',
    tags: ['news', 'weekly'],
    metadata: { customer: 'c-1029384', campaign: 'autumn' },
    message_id: `<${email}@example.com>`,
    sequence: 3,
    template_id: null,
    via: 'mx'
  }
  return { id, email, body: JSON.stringify({ id, type: 'email.delivered', created_at: timestamp(nowMs), data }) }
}

/** Appends the fact that is an event of a new email; resolves once it is durable. */
export async function appendEvent (
  { factLog }: Ground,
  account: string,
  { id, email, body }: ReturnType<typeof makeEvent>
): Promise<void> {
  const fact = stamp(
    EmailDelivered,
    { account, correlation: 'bench', causation: null },
    {
      email,
      n: 0,
      request: 1,
      to: 'ada.lovelace@example.net',
      sequence: 3,
      event: body,
      attempt: 1,
      host: 'mx.example.net',
      tls: { version: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384', verified: true },
      via: 'mx',
      ms: 312,
      reply: { code: 250, enhanced: '2.0.0', text: '250 2.0.0 Ok: queued as 4b1f2c3d4e5f' }
    },
    Date.now(),
    id
  )
  await factLog.append([{ fact }], 60_000)
}
