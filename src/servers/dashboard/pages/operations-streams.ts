import { html, type Html } from '#src/base/html.ts'
import type { ConsumerStatus, StreamStatus } from '#src/nats/status.ts'
import { consumerState } from '#src/operations/consumer-state.ts'
import { badge, number, refreshed, size, duration, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const REFRESH_S = 5

/** The streams in NATS and their consumers. */
export function streamsPages (pages: Pages, { operations }: DashboardContext): void {
  pages.get('/operations/streams', 'operator', async visit => {
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

function stateCell (consumer: ConsumerStatus): Html {
  const { state, text } = consumerState(consumer)
  if (state === 'idle') return html`<span class="hint">${text}</span>`
  if (state === 'working') return html`${badge('working', 'busy')} ${text}`
  return html`${state === 'stalled' ? badge('stalled', 'bad') : badge('behind')} ${text}`
}
