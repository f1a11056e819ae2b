import { html, type Html } from '#src/base/html.ts'
import type { ConsumerStatus, StreamStatus } from '#src/nats/status.ts'
import { badge, counted, number, refreshed, size, duration, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const REFRESH_S = 5

/** The streams in NATS and their consumers. */
export function streamsPages (pages: Pages, { operations }: DashboardContext): void {
  pages.get('/operations/streams', async visit => {
    const [streams, consumers] = await Promise.all([operations.streams(), operations.consumers()])
    return operationsPage(
      '/streams',
      html`<div ${refreshed(visit, REFRESH_S, 'streams')}>
${problemBox([...streams.problems, ...consumers.problems])}
${
        streams.value.length > 0 && html`<section class="card"><h2>Streams</h2>
<p class="hint">A stream keeps its messages for the time given here, then deletes them.</p>
${
          table('Streams', [
            {
              name: 'Stream',
              kind: 'wide',
              cell: ({ name }) => html`<strong>${name}</strong><br><span class="hint">${HOLDS[name] ?? ''}</span>`
            },
            { name: 'Messages', kind: 'num', cell: ({ messages }) => number(messages) },
            { name: 'Size', kind: 'num', cell: ({ bytes }) => size(bytes) },
            { name: 'Oldest', cell: ({ firstAt }) => time(firstAt, visit.nowMs) },
            { name: 'Kept', cell: ({ ageMsMax }) => (ageMsMax === 0 ? 'for ever' : duration(ageMsMax)) },
            { name: 'Replicas', kind: 'late', cell: replicasOf }
          ], streams.value)
        }</section>`
      }
${
        consumers.value.length > 0 && html`<section class="card"><h2>Consumers</h2>
<p class="hint">Workers share the messages of a consumer. A message that is not acknowledged is delivered again.</p>
${
          table('Consumers', [
            {
              name: 'Consumer',
              cell: ({ name, stream }) => html`<strong>${name}</strong><br><span class="hint">of ${stream}</span>`
            },
            { name: 'Pending', kind: 'num', cell: ({ pending }) => number(pending) },
            { name: 'Unacknowledged', kind: 'num', cell: ({ ackPending }) => number(ackPending) },
            { name: 'Redelivered', kind: 'num', cell: ({ redelivered }) => number(redelivered) },
            { name: 'Status', kind: 'wide', cell: stateCell }
          ], consumers.value)
        }</section>`
      }</div>`
    )
  })
}

const HOLDS: Record<string, string> = {
  REQUESTS: 'Emails as they were requested, with their content',
  EMAILS: 'Attempts and outcomes of each recipient',
  INBOUND: 'Inbound mail',
  CONTROL: 'Accounts, keys, domains, webhooks, templates, suppressions',
  SCHEDULE: 'Scheduled emails and retries',
  WEBHOOKS: 'Webhook deliveries and their attempts',
  OBJ_CONTENT: 'Content too large for a fact',
  LIMITS: 'Rate limits of the last minutes',
  HEARTBEATS: 'Heartbeats of senders'
}

function replicasOf ({ replicas, replicasBehind, isInMemory }: StreamStatus): Html {
  const where = isInMemory ? 'in memory' : 'on disk'
  return replicasBehind.length === 0
    ? html`${replicas}, ${where}`
    : html`${replicas}, ${where} ${badge('behind')}<br><span class="hint">${replicasBehind.join(', ')}</span>`
}

/** The state of a consumer in a word and a sentence. */
interface ConsumerState {
  state: 'idle' | 'working' | 'behind' | 'stalled'
  text: string
}

/** More than a busy moment leaves pending. */
const BEHIND = 1000

/** What waits while a consumer is behind, and the role that works on it. */
const WORK: Record<string, [what: string, role: string]> = {
  sender: ['accepted emails wait to be sent', 'sender'],
  'sender-due': ['due emails and retries wait to be sent', 'sender'],
  inbound: ['inbound mail waits, so bounces and complaints show late', 'inbound'],
  reactions: ['addresses are suppressed late after bounces and complaints', 'projector'],
  deliveries: ['webhook deliveries wait for their first attempt', 'webhooks'],
  'deliveries-replay': ['replayed webhook deliveries wait', 'webhooks'],
  'deliveries-due': ['due webhook retries wait', 'webhooks'],
  'batch-members': ['events wait to be put into webhook batches', 'webhooks'],
  'batches-due': ['due webhook batches wait', 'webhooks'],
  replays: ['requested replays wait to start', 'webhooks'],
  'replays-due': ['replays wait to continue', 'webhooks']
}

export function consumerState ({ name, pending, ackPending, ackPendingMax, waiting }: ConsumerStatus): ConsumerState {
  const [what, role] = WORK[name] ?? ['its messages wait', 'of its own']
  const messages = counted(pending, 'message')
  if (pending === 0 && ackPending === 0) return { state: 'idle', text: 'Nothing pending.' }
  if (pending === 0) {
    return { state: 'working', text: `${counted(ackPending, 'message')} in progress or waiting for a retry.` }
  }
  if (waiting === 0 && ackPending === 0) {
    const advice = `Check that a process with the role ${role} runs.`
    return { state: 'stalled', text: `${messages} pending and no worker fetches them: ${what}. ${advice}` }
  }
  if (ackPending >= ackPendingMax) {
    const limit = `The limit of ${number(ackPendingMax)} unacknowledged messages is reached`
    return { state: 'behind', text: `${limit}, ${messages} pending: ${what}.` }
  }
  if (pending >= BEHIND) {
    const advice = `Start more processes with the role ${role} to share the work.`
    return { state: 'behind', text: `${messages} pending: ${what}. ${advice}` }
  }
  return { state: 'working', text: `${messages} pending.` }
}

function stateCell (consumer: ConsumerStatus): Html {
  const { state, text } = consumerState(consumer)
  if (state === 'idle') return html`<span class="hint">${text}</span>`
  if (state === 'working') return html`${badge('working', 'busy')} ${text}`
  return html`${state === 'stalled' ? badge('stalled', 'bad') : badge('behind')} ${text}`
}
