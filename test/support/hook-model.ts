import { createHmac } from 'node:crypto'
import { eventIn, pendingAfter, type Pending } from '#streams/delivery/decide.ts'
import type { DeliveryAttempted, DeliveryFailed, DeliveryMoved, DeliveryRequested } from '#streams/delivery/facts.ts'
import type { EventType } from '#streams/webhook/facts.ts'
import type { WebhookSettings } from '#streams/webhook/decide.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import type { HookAnswer, HookRequest, HookSink } from './hook-sink.ts'
import type { Chance } from './random.ts'

/** What an endpoint is like. `ends`: `delivered` = each of its events arrives; `either` = or fails by schedule;
 *  `failed` = by schedule, each of them; `gone` = either, or ends with the endpoint. `rare`: it listens to the few
 *  events only, since each costs it long. */
export interface Kind {
  name: string
  ends: 'delivered' | 'either' | 'failed' | 'gone'
  rare?: true
  settings?: Partial<WebhookSettings>
  answers(request: HookRequest, index: number): HookAnswer
}

/** One of each, with chance in it. `trapUrl`: nobody may ever be led there. */
export function kindsOf (chance: Chance, trapUrl: string): Kind[] {
  const batch = () => ({ batch: { maxEvents: chance.int(2, 7), maxWaitMs: chance.int(100, 600) } })
  const [flapsFor, batchFlapsFor, goneAfter] = [chance.int(1, 30), chance.int(1, 6), chance.int(3, 60)]
  const failure = (): HookAnswer => chance.of([{ status: 500 }, { status: 404 }, { reset: true }, { close: true }])
  return [
    { name: 'fast', ends: 'delivered', answers: () => ({}) },
    {
      name: 'slow',
      ends: 'delivered',
      answers: () => ({ delayMs: chance.int(1, 60), status: chance.of([200, 201, 204]) })
    },
    {
      name: 'narrow',
      ends: 'delivered',
      settings: { concurrency: 1 },
      answers: () => ({ delayMs: chance.int(1, 15) })
    },
    {
      name: 'wide',
      ends: 'delivered',
      settings: { concurrency: 100 },
      answers: () => ({ delayMs: chance.int(1, 200) })
    },
    { name: 'talkative', ends: 'delivered', answers: () => ({ body: 'x'.repeat(1_000_000) }) },
    { name: 'batches', ends: 'delivered', settings: batch(), answers: () => ({ delayMs: chance.int(1, 20) }) },
    { name: 'paused', ends: 'delivered', answers: () => ({}) },
    { name: 'paused batches', ends: 'delivered', settings: batch(), answers: () => ({}) },
    { name: 'flapping', ends: 'either', answers: (_request, index) => index < flapsFor ? failure() : {} },
    {
      name: 'flapping batches',
      ends: 'either',
      settings: batch(),
      answers: (_request, index) => index < batchFlapsFor ? failure() : {}
    },
    { name: 'unsteady', ends: 'either', answers: () => chance.next() < 0.2 ? failure() : {} },
    {
      name: 'busy',
      ends: 'either',
      answers: () =>
        chance.next() < 0.1
          ? { status: chance.of([429, 503]), headers: { 'Retry-After': chance.of(['1', 'soon']) } }
          : {}
    },
    { name: 'gone at once', ends: 'gone', settings: { concurrency: 1 }, answers: () => ({ status: 410 }) },
    { name: 'gone later', ends: 'gone', answers: (_request, index) => index < goneAfter ? {} : { status: 410 } },
    { name: 'failing', ends: 'failed', rare: true, answers: failure },
    { name: 'hanging', ends: 'failed', rare: true, answers: () => ({ hang: true }) },
    {
      name: 'redirecting',
      ends: 'failed',
      rare: true,
      answers: () => ({ status: chance.of([301, 302, 307, 308]), headers: { Location: trapUrl } })
    },
    {
      name: 'endless headers',
      ends: 'failed',
      rare: true,
      answers: () => ({ raw: 'HTTP/1.1 200 OK\r\n', more: 'X-One-More: 1\r\n' })
    },
    {
      name: 'no HTTP',
      ends: 'failed',
      rare: true,
      settings: batch(),
      answers: () => ({ raw: '220 mx.example.net ESMTP\r\n' })
    }
  ]
}

/** An endpoint of the model with all that it saw and said. */
export interface Endpoint {
  kind: Kind
  sink: HookSink
  webhook: WebhookEntry
  secret: string
  events: readonly EventType[]
  /** Statuses by `webhook-id`, in the order they were given; 0 = no status. */
  said: Map<string, number[]>
}

/** Answers as its kind does, and keeps what was said. */
export function play (endpoint: Endpoint): void {
  endpoint.sink.answers((request, index) => {
    const answer = endpoint.kind.answers(request, index)
    const { hang, reset, close, raw, status = 200 } = answer
    const id = request.headers['webhook-id']!
    endpoint.said.set(id, [...endpoint.said.get(id) ?? [], hang || reset || close || raw !== undefined ? 0 : status])
    return answer
  })
}

type Step = DeliveryRequested | DeliveryAttempted | DeliveryMoved | DeliveryFailed

/** One delivery by the log. */
export interface History {
  webhook: string
  steps: Step[]
  over: boolean
  last: Pending | null
}

/** What the log says, as far as it was read. */
export interface Told {
  /** Events in the log's order. */
  events: Array<{ id: string, type: EventType, email: string, body: string, seq: number }>
  deliveries: Map<string, History>
}

export function tell (told: Told, { fact, seq }: Recorded<AnyFact>): void {
  const event = eventIn(fact)
  if (event !== null) told.events.push({ ...event, id: fact.id, seq })
  const last = pendingAfter(fact)
  if (last === undefined) return
  const step = fact as Step
  const history = told.deliveries.get(step.data.delivery) ??
    { webhook: step.data.webhook, steps: [], over: false, last: null }
  history.steps.push(step)
  history.over ||= last === null
  history.last = last
  told.deliveries.set(step.data.delivery, history)
}

/** Which (event, endpoint) of those that are owed are not at their end; `gone` endpoints are owed nothing new. */
export function unfinished (told: Told, endpoints: Endpoint[]): string[] {
  const asked = new Set<string>()
  const open: string[] = []
  for (const [id, { webhook, steps, over }] of told.deliveries) {
    for (const event of steps[0]!.data.events) asked.add(`${event.id} ${webhook}`)
    if (!over) open.push(`${id} of ${nameOf(endpoints, webhook)} after ${steps.map(({ type }) => type).join(', ')}`)
  }
  for (const { kind, webhook, events } of endpoints) {
    if (kind.ends === 'gone') continue
    for (const event of told.events) {
      if (events.includes(event.type) && !asked.has(`${event.id} ${webhook.id}`)) {
        open.push(`${event.id} for ${kind.name} was never asked for`)
      }
    }
  }
  return open
}

function nameOf (endpoints: Endpoint[], webhook: string): string {
  return endpoints.find(endpoint => endpoint.webhook.id === webhook)?.kind.name ?? webhook
}

/** What is wrong with what the endpoint saw: each delivery is the very bytes of its events on every try, under one id,
 *  signed. */
export function faultsSeen (told: Told, { kind, sink, secret, webhook }: Endpoint): string[] {
  const faults: string[] = []
  const bodies = new Map(told.events.map(({ id, body }) => [id, body]))
  const wanted = new Map<string, string>()
  for (const [delivery, { webhook: its, steps: [requested] }] of told.deliveries) {
    if (its !== webhook.id) continue
    const members = requested!.data.events.map(({ id }) => bodies.get(id))
    wanted.set(
      ...(requested!.data.batch
        ? [delivery, `{"object":"batch","id":"${delivery}","events":[${members.join(',')}]}`] as const
        : [requested!.data.events[0]!.id, members[0]!] as const)
    )
  }
  for (const { headers, body } of sink.requests) {
    const id = headers['webhook-id']!
    if (wanted.get(id) !== body.toString()) faults.push(`${kind.name}: ${id} came with other bytes than its events'`)
    if (headers['x-service-signature'] !== `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`) {
      faults.push(`${kind.name}: ${id} is not signed`)
    }
  }
  return faults
}

/** What is wrong with how its deliveries ended. `tries` = attempts on the whole schedule. */
export function faultsInEnds (told: Told, { kind, said, webhook }: Endpoint, tries: number): string[] {
  const faults: string[] = []
  for (const [delivery, { webhook: its, steps }] of told.deliveries) {
    if (its !== webhook.id) continue
    const { events, batch } = steps[0]!.data
    const heard = (said.get(batch ? delivery : events[0]!.id) ?? []).some(status => status >= 200 && status < 300)
    const arrived = steps.some(step => step.type === 'delivery.attempted' && step.data.result === 'delivered')
    const exhausted = steps.some(step =>
      step.type === 'delivery.attempted' && step.data.result === 'failed' && step.data.attempt === tries
    )
    const refused = steps.some(step =>
      step.type === 'delivery.failed'
        ? step.data.reason === 'endpoint_disabled'
        : step.type === 'delivery.attempted' && step.data.status === 410
    )
    const fine = {
      delivered: arrived,
      either: arrived || exhausted,
      failed: exhausted && !arrived,
      gone: arrived || refused || exhausted
    }[kind.ends]
    if (!fine) faults.push(`${kind.name}: ${delivery} did not end as it should: ${JSON.stringify(steps.map(brief))}`)
    if (arrived && !heard) faults.push(`${kind.name}: ${delivery} is said to have arrived, and did not`)
  }
  return faults
}

/** Why the facts of one delivery are no legal history, or null. Each continues a state that an earlier one has left;
 *  with `once`, the very last one: then nobody was killed, so nobody did a step again. */
export function illegal ({ steps }: History, tries: number, once: boolean): string | null {
  // Where the endpoint answers, its first fact is its first attempt.
  let open = new Set([0])
  const members = JSON.stringify(steps[0]!.data.events)
  for (const [i, step] of steps.entries()) {
    const made = step.type === 'delivery.requested'
      ? null
      : step.type === 'delivery.attempted'
      ? step.data.attempt - 1
      : step.data.attempts
    const fine = made === null ? i === 0 : open.has(made)
    const early = step.type === 'delivery.attempted' && step.data.result === 'failed' && step.data.status !== 410 &&
      step.data.attempt !== tries
    if (!fine || early || JSON.stringify(step.data.events) !== members) {
      return `step ${i + 1} of ${JSON.stringify(steps.map(brief))}`
    }
    const after = pendingAfter(step)
    if (once) open = new Set()
    if (after != null) open.add(after.attempts)
  }
  return null
}

function brief (step: Step): string {
  switch (step.type) {
    case 'delivery.requested':
      return 'requested'
    case 'delivery.attempted':
      return `${step.data.attempt} ${step.data.result} ${step.data.status ?? step.data.errorKind}`
    case 'delivery.moved':
      return `${step.data.attempts} moved`
    case 'delivery.failed':
      return `${step.data.attempts} ${step.data.reason}`
  }
}

/** Events that arrived before an earlier one of the same email, and how many emails were looked at. Order is promised
 *  while the endpoint answers: an email is left out when one of its deliveries had to be made again; and of batches,
 *  which go in one line, all. */
export function overtaking (told: Told, { kind, sink, said }: Endpoint): { faults: string[], emails: number } {
  const events = new Map(told.events.map(event => [event.id, event]))
  const again = new Set([...said].filter(([, statuses]) => statuses.length > 1).map(([id]) => id))
  const skipped = new Set([...again].map(id => events.get(id)?.email))
  if (kind.settings?.batch != null && again.size > 0) return { faults: [], emails: 0 }
  const heard = new Map<string, number[]>()
  for (const { body } of sink.requests) {
    const parsed = JSON.parse(body.toString()) as { id: string, events?: Array<{ id: string }> }
    for (const { email, seq } of (parsed.events ?? [parsed]).map(({ id }) => events.get(id)!)) {
      if (!skipped.has(email)) heard.set(email, [...heard.get(email) ?? [], seq])
    }
  }
  const faults = [...heard].filter(([, seqs]) => seqs.some((seq, i) => i > 0 && seq < seqs[i - 1]!)).map((
    [email, seqs]
  ) => `${kind.name}: ${email} came as ${seqs}`)
  return { faults, emails: [...heard.values()].filter(seqs => seqs.length > 1).length }
}
