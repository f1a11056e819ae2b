import { html, type Html } from '#src/base/html.ts'
import type { ConsumerStatus, StreamStatus } from '#src/nats/status.ts'
import { badge, counted, number, refreshed, size, duration, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const EVERY_S = 5

/** The log as NATS keeps it, and who works through it. */
export function streamsPages (pages: Pages, { operations }: DashboardContext): void {
  pages.get('/operations/streams', async visit => {
    const [streams, consumers] = await Promise.all([operations.streams(), operations.consumers()])
    return operationsPage(
      '/streams',
      html`<div ${refreshed(visit, EVERY_S, 'streams')}>
${problemBox([...streams.problems, ...consumers.problems])}
${
        streams.value.length > 0 && html`<section class="card"><h2>Streams</h2>
<p class="hint">Facts are appended and never changed; a stream lets go of what is older than it keeps.</p>
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
            { name: 'Copies', kind: 'late', cell: copies }
          ], streams.value)
        }</section>`
      }
${
        consumers.value.length > 0 && html`<section class="card"><h2>Consumers</h2>
<p class="hint">Work that is shared: each message goes to one worker, and comes again when nobody says that it is done.</p>
${
          table('Consumers', [
            {
              name: 'Consumer',
              cell: ({ name, stream }) => html`<strong>${name}</strong><br><span class="hint">of ${stream}</span>`
            },
            { name: 'Waiting', kind: 'num', cell: ({ pending }) => number(pending) },
            { name: 'In work', kind: 'num', cell: ({ ackPending }) => number(ackPending) },
            { name: 'Given again', kind: 'num', cell: ({ redelivered }) => number(redelivered) },
            { name: 'What it means', kind: 'wide', cell: meaning }
          ], consumers.value)
        }</section>`
      }</div>`
    )
  })
}

const HOLDS: Record<string, string> = {
  REQUESTS: 'Emails as they were asked for, with their content',
  EMAILS: 'What became of each recipient',
  INBOUND: 'Mail that came in, as it came',
  CONTROL: 'Accounts, keys, domains, webhooks, templates, suppressions',
  SCHEDULE: 'What is due later: scheduled emails, retries',
  WEBHOOKS: 'Webhook deliveries and their attempts',
  OBJ_CONTENT: 'Content too large for a fact',
  LIMITS: 'Rate limits of the last minutes',
  HEARTBEATS: 'Signs of life of senders'
}

function copies ({ replicas, replicasBehind, isInMemory }: StreamStatus): Html {
  const where = isInMemory ? 'in memory' : 'on disk'
  return replicasBehind.length === 0
    ? html`${replicas}, ${where}`
    : html`${replicas}, ${where} ${badge('behind')}<br><span class="hint">${replicasBehind.join(', ')}</span>`
}

/** How a consumer stands, in a word and a sentence. */
interface ConsumerState {
  state: 'idle' | 'working' | 'behind' | 'nobody'
  means: string
}

/** More than a busy moment leaves waiting. */
const BEHIND = 1000

/** What waits while it is behind, and which role works on it. */
const WORK: Record<string, [what: string, role: string]> = {
  sender: ['emails that were accepted wait to be sent', 'sender'],
  'sender-due': ['emails whose time has come, and second tries, wait to be sent', 'sender'],
  inbound: ['mail that came back waits to be read: bounces and complaints show late', 'inbound'],
  reactions: ['addresses are suppressed late after bounces and complaints', 'projector'],
  deliveries: ['webhook deliveries wait for their first request', 'webhooks'],
  'deliveries-replay': ['replayed webhook deliveries wait', 'webhooks'],
  'deliveries-due': ['webhook retries whose time has come wait', 'webhooks'],
  'batch-members': ['events wait to be put into webhook batches', 'webhooks'],
  'batches-due': ['webhook batches whose time has come wait', 'webhooks'],
  replays: ['replays that were asked for wait to begin', 'webhooks'],
  'replays-due': ['replays that go on later wait', 'webhooks']
}

export function consumerState ({ name, pending, ackPending, ackPendingMax, waiting }: ConsumerStatus): ConsumerState {
  const [what, role] = WORK[name] ?? ['its messages wait', 'of its own']
  const waits = counted(pending, 'message')
  if (pending === 0 && ackPending === 0) return { state: 'idle', means: 'Nothing waits.' }
  if (pending === 0) {
    return { state: 'working', means: `${counted(ackPending, 'message')} in work or waiting for another try.` }
  }
  if (waiting === 0 && ackPending === 0) {
    return {
      state: 'nobody',
      means: `${waits}, and nobody asks for them: ${what}. Is there a process with the role ${role}?`
    }
  }
  if (ackPending >= ackPendingMax) {
    return { state: 'behind', means: `All ${number(ackPendingMax)} places are taken and ${waits} more: ${what}.` }
  }
  if (pending >= BEHIND) {
    return { state: 'behind', means: `${waits} behind: ${what}. More processes with the role ${role} share the work.` }
  }
  return { state: 'working', means: `${waits} on the way.` }
}

function meaning (consumer: ConsumerStatus): Html {
  const { state, means } = consumerState(consumer)
  if (state === 'idle') return html`<span class="hint">${means}</span>`
  if (state === 'working') return html`${badge('working', 'busy')} ${means}`
  return html`${state === 'nobody' ? badge('at a standstill', 'bad') : badge('behind')} ${means}`
}
