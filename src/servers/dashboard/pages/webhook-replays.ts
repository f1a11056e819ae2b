import type { ReplayState } from '#streams/replay/decide.ts'
import type { WaitReason } from '#streams/replay/wait.ts'
import { html, type Html } from '#src/base/html.ts'
import { act, badge, number, table, time } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { stretchText } from './webhook-words.ts'

const SHOWN_MAX = 10

const WHAT: Record<ReplayState['what'], string> = {
  failed: 'What failed',
  window: 'All events',
  backfill: 'Events from before it was made'
}

const WAITS: Record<WaitReason, string> = {
  paused: 'the endpoint is paused',
  failing: 'the endpoint does nothing but fail, so it gets one delivery every 10 s until one arrives',
  pace: 'its pace',
  crowded: 'much that replays have asked for is still on its way',
  behind: 'this endpoint has enough waiting',
  projection: 'PostgreSQL does not answer',
  error: 'something did not answer; it tries again'
}

/** The last ones of an endpoint, with how far each has come. */
export function replaysCard (visit: Visit, webhook: string, replays: ReplayState[]): Html | null {
  if (replays.length === 0) return null
  const more = replays.length > SHOWN_MAX &&
    html`<p><a href="/dashboard/webhooks/${webhook}/replays">All ${number(replays.length)}</a></p>`
  return html`<section class="card" id="replays"><h2>Replays of the last 30 days</h2>${more}${
    replayTable(visit, replays.slice(0, SHOWN_MAX))
  }</section>`
}

/** Without bound: there are 500 at most. */
export function replayTable (visit: Visit, replays: ReplayState[]): Html {
  return table<ReplayState>(
    'Replays',
    [
      {
        name: 'What',
        kind: 'wide',
        cell: ({ what, from, to }) => html`${WHAT[what]}<br><span class="hint">${stretchText(from, to)}</span>`
      },
      { name: 'State', cell: standing },
      { name: 'Deliveries', cell: progress },
      { name: 'A second', kind: 'num', cell: ({ pace }) => pace },
      { name: 'Changed', cell: ({ changedAt }) => time(changedAt, visit.nowMs) },
      ...(replays.some(({ state }) => state === 'running')
        ? [{ name: 'End it', cell: (replay: ReplayState) => cancelOf(visit, replay) }]
        : [])
    ],
    replays,
    ({ replay }) => replay
  )
}

function cancelOf (visit: Visit, { state, replay, webhook }: ReplayState): Html | null {
  if (state !== 'running') return null
  const confirm = 'No more of this replay is sent than it has asked for already.'
  return act(visit, 'Cancel', {
    action: `/dashboard/webhooks/${webhook}/replays/${replay}/cancel`,
    confirm,
    confirmLabel: 'Cancel the replay'
  })
}

/** What was asked for is not all sent yet. */
function progress ({ state, made }: ReplayState): string {
  if (state === 'done') return `All ${number(made)} asked for`
  return `${number(made)} asked for${state === 'running' ? ' so far' : ''}`
}

function standing ({ state, waits }: ReplayState): Html {
  return html`${badge(state)}${waits !== null && html`<br><span class="hint">Waits: ${WAITS[waits]}</span>`}`
}
