// The webhook role in a process of its own, or a bare undici pool in its place.
import { Pool } from 'undici'
import { startWebhooks, type WebhooksOptions } from '#src/workers/webhooks/webhook-workers.ts'
import type { Role } from '#src/base/role.ts'
import { answerWith } from './child.ts'
import { usageOfOne } from './usage.ts'
import { makeEvent, openGround, type Ground } from './webhook-facts.ts'

export type WebhookRoleQuestion =
  /** Runs the role until so many attempts are recorded, then stops it. */
  | { ask: 'work', natsUrl: string, natsPid: number | null, deliveries: number }
  /** Runs it and lets it run. */
  | { ask: 'start', natsUrl: string }
  /** Posts as many bodies of the same size, so many at once. */
  | { ask: 'post', url: string, deliveries: number, atOnce: number }

/** CPU time of a delivery in this process and in the nats-server. */
export interface WebhookSpeed {
  perS: number
  cpuMs: number
  natsMs: number
  failed: number
}

let ground: Ground | null = null

answerWith<WebhookRoleQuestion>(async question => {
  switch (question.ask) {
    case 'work':
      return await work(question)
    case 'start':
      await start(question.natsUrl, () => {})
      return {}
    case 'post':
      return await post(question)
  }
})

async function start (natsUrl: string, onAttempt: WebhooksOptions['onAttempt']): Promise<Role> {
  ground ??= await openGround(natsUrl, 'bench role')
  return startWebhooks({
    ...ground,
    mayCallPrivate: () => true,
    onAttempt
  })
}

async function work (
  { natsUrl, natsPid, deliveries }: Extract<WebhookRoleQuestion, { ask: 'work' }>
): Promise<WebhookSpeed> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let [done, failed] = [0, 0]
  const natsMs = usageOfOne(natsPid).cpuMs
  const meter = startMeter()
  const role = await start(natsUrl, ({ result }) => {
    if (result !== 'delivered') failed++
    if (++done === deliveries) resolve()
  })
  await promise
  const speed = { ...meter(deliveries), natsMs: (usageOfOne(natsPid).cpuMs - natsMs) / deliveries, failed }
  await role.stop()
  return speed
}

function startMeter (): (count: number) => { perS: number, cpuMs: number } {
  const [cpu, fromMs] = [process.cpuUsage(), performance.now()]
  return count => {
    const { user, system } = process.cpuUsage(cpu)
    return { perS: count / (performance.now() - fromMs) * 1000, cpuMs: (user + system) / 1000 / count }
  }
}

async function post (
  { url, deliveries, atOnce }: Extract<WebhookRoleQuestion, { ask: 'post' }>
): Promise<WebhookSpeed> {
  const { origin, pathname: path } = new URL(url)
  const pool = new Pool(origin, { connections: atOnce, pipelining: 1 })
  const bodies = Array.from({ length: 1000 }, () => Buffer.from(makeEvent().body))
  let [next, failed] = [0, 0]
  const meter = startMeter()
  const worker = async () => {
    while (next < deliveries) {
      const { statusCode, body } = await pool.request({
        path,
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'User-Agent': 'Jetpost' },
        body: bodies[next++ % bodies.length]!
      })
      await body.dump()
      if (statusCode !== 200) failed++
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  const speed = { ...meter(deliveries), natsMs: 0, failed }
  await pool.close()
  return speed
}
