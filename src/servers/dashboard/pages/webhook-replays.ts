import type { ReplayState, WaitReason } from '#streams/replay/decide.ts'
import { html, type Html } from '#src/base/html.ts'
import { actionButton, badge, number, table, time } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { periodText } from './webhook-format.ts'

const SHOWN_MAX = 10

const WHAT: Record<ReplayState['what'], string> = {
  failed: 'Failed deliveries',
  window: 'All events',
  backfill: 'Events before the endpoint was created'
}

const WAITS: Record<WaitReason, string> = {
  paused: 'the endpoint is paused',
  failing: 'the endpoint is failing, so it gets one delivery every 10 s until one succeeds',
  pace: 'its rate',
  behind: 'the endpoint has many deliveries waiting',
  projection: 'PostgreSQL does not answer',
  error: 'a server does not answer; the replay retries'
}

/** The last replays of an endpoint with their progress. */
export function replaysCard (visit: Visit, webhook: string, replays: ReplayState[]): Html | null {
  if (replays.length === 0) return null
  const more = replays.length > SHOWN_MAX &&
    html`<p><a href="/dashboard/webhooks/${webhook}/replays">All ${number(replays.length)}</a></p>`
  return html`<section class="card" id="replays"><h2>Replays of the last 30 days</h2>${more}${
    replayTable(visit, replays.slice(0, SHOWN_MAX))
  }</section>`
}

/** How much of a replay is requested, of what was counted before it began (`of`), and where to see what failed. */
export function replayProgress ({ query }: Visit, { webhook, state, made, from, to }: ReplayState): Html {
  const [counted] = /^\d{1,9}$/.exec(query.get('of') ?? '') ?? []
  const all = counted === undefined ? null : Math.max(made, Number(counted))
  const text = all === null ? `${number(made)} requested` : `${number(made)} of ${number(all)} requested`
  const bar = all !== null && html`<progress max="${all}" value="${made}" aria-label="Progress"></progress>`
  const period = new URLSearchParams({ since: from, until: to, state: 'failed' }).toString()
  const end = state !== 'running' &&
    html`<p class="hint">New failures of this period:
<a href="/dashboard/webhooks/${webhook}?${period}">what failed</a>. The receiver's answers are under Deliveries.</p>`
  return html`<section class="card" role="status"><h2>${text}</h2>${bar}${end}</section>`
}

/** Not paged: there are 500 at most. */
export function replayTable (visit: Visit, replays: ReplayState[]): Html {
  return table<ReplayState>(
    'Replays',
    [
      {
        name: 'What',
        kind: 'wide',
        cell: ({ replay, webhook, what, from, to }) =>
          html`<a href="/dashboard/webhooks/${webhook}/replays/${replay}">${WHAT[what]}</a><br><span class="hint">${
            periodText(from, to)
          }</span>`
      },
      { name: 'Status', cell: stateCell },
      { name: 'Deliveries', cell: progress },
      { name: 'Per second', kind: 'num', cell: ({ pace }) => pace },
      { name: 'Updated', cell: ({ changedAt }) => time(changedAt, visit.nowMs) },
      ...(replays.some(({ state }) => state === 'running')
        ? [{ name: 'Cancel', cell: (replay: ReplayState) => cancelOf(visit, replay) }]
        : [])
    ],
    replays,
    ({ replay }) => replay
  )
}

function cancelOf (visit: Visit, { state, replay, webhook }: ReplayState): Html | null {
  if (state !== 'running') return null
  const confirm = 'The replay requests no more deliveries. Those it has requested are still sent.'
  return actionButton(visit, 'Cancel', {
    action: `/dashboard/webhooks/${webhook}/replays/${replay}/cancel`,
    confirm,
    confirmLabel: 'Cancel replay'
  })
}

/** Deliveries that were requested; not all of them are sent yet. */
function progress ({ state, made }: ReplayState): string {
  return `${number(made)} requested${state === 'running' ? ' so far' : ''}`
}

function stateCell ({ state, waits }: ReplayState): Html {
  return html`${badge(state)}${waits !== null && html`<br><span class="hint">Waiting: ${WAITS[waits]}</span>`}`
}
