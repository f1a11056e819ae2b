// Raw appends to JetStream, with nothing of Jetpost around them. Answers {natsUrl, bytes, kind, …} with how fast they
// were.
import { connect, headers, type MsgHdrs, type NatsConnection } from 'nats'
import { randomUUID } from 'node:crypto'
import { quantile } from '#src/cli/bench/load.ts'
import { answerWith } from './child.ts'
import type { Speed } from './load-child.ts'

export interface RawQuestion {
  natsUrl: string
  /** Size of each message. */
  bytes: number
  /** `plain` = one message a publish, `inFlight` at once; `batch` = atomic batches of `size`, one at a time. */
  kind: 'plain' | 'batch'
  inFlight: number
  size: number
  durationMs: number
}

const STREAM = 'BENCH'
const SUBJECT = 'bench.append'
const ANSWER_MS = 10_000
const WARM_SHARE = 0.2

answerWith<RawQuestion>(async question => {
  const { host, username, password } = new URL(question.natsUrl)
  const nc = await connect({ servers: host, user: username, pass: password })
  try {
    await makeStream(nc)
    return await measure(nc, question)
  } finally {
    await nc.close()
  }
})

/** As REQUESTS is. */
async function makeStream (nc: NatsConnection): Promise<void> {
  const config = {
    name: STREAM,
    subjects: ['bench.>'],
    storage: 'file',
    discard: 'new',
    duplicate_window: 120_000_000_000,
    allow_direct: true,
    allow_atomic: true
  }
  const answer = await nc.request(`$JS.API.STREAM.CREATE.${STREAM}`, JSON.stringify(config), { timeout: ANSWER_MS })
  const { error } = answer.json<{ error?: { description: string } }>()
  if (error !== undefined) throw new Error(error.description)
}

async function measure (nc: NatsConnection, { bytes, kind, inFlight, size, durationMs }: RawQuestion): Promise<Speed> {
  const payload = new Uint8Array(bytes).fill(0x61)
  const warmUntilMs = performance.now() + durationMs * WARM_SHARE
  const endMs = performance.now() + durationMs
  const times: number[] = []
  let failed = 0
  const append = kind === 'plain' ? () => publish(nc, payload) : () => publishBatch(nc, payload, size)
  const caller = async () => {
    for (let nowMs = performance.now(); nowMs < endMs; nowMs = performance.now()) {
      const stored = await append()
      if (!stored) failed++
      else if (performance.now() > warmUntilMs) times.push(performance.now() - nowMs)
    }
  }
  await Promise.all(Array.from({ length: kind === 'plain' ? inFlight : 1 }, caller))
  const spanS = (performance.now() - warmUntilMs) / 1000
  const perCommit = kind === 'plain' ? 1 : size
  times.sort((a, b) => a - b)
  return { perS: times.length * perCommit / spanS, p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99), failed }
}

async function publish (nc: NatsConnection, payload: Uint8Array): Promise<boolean> {
  const answer = await nc.request(SUBJECT, payload, { headers: withId(), timeout: ANSWER_MS })
  return answer.json<{ error?: unknown }>().error === undefined
}

async function publishBatch (nc: NatsConnection, payload: Uint8Array, size: number): Promise<boolean> {
  const id = randomUUID()
  for (let i = 1; i < size; i++) nc.publish(SUBJECT, payload, { headers: inBatch(id, i) })
  const last = inBatch(id, size)
  last.set('Nats-Batch-Commit', '1')
  const answer = await nc.request(SUBJECT, payload, { headers: last, timeout: ANSWER_MS })
  return answer.json<{ error?: unknown }>().error === undefined
}

function withId (): MsgHdrs {
  const head = headers()
  head.set('Nats-Msg-Id', randomUUID())
  return head
}

function inBatch (id: string, sequence: number): MsgHdrs {
  const head = withId()
  head.set('Nats-Batch-Id', id)
  head.set('Nats-Batch-Sequence', String(sequence))
  return head
}
