import { html, type Html, type Value } from '#src/base/html.ts'
import { judgeLag } from '../judges.ts'
import type { ProjectionReport, Rebuild } from '#src/operations/projection-monitor.ts'
import { act, badge, counted, number, refreshed, size, span, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { Missing, Unfit, type Pages, type Visit } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const EVERY_S = 5
const PAGE = '/dashboard/operations/projections'

/** The views, and to make them anew. */
export function projectionsPages (pages: Pages, { operations, log }: DashboardContext): void {
  pages.get('/operations/projections', async visit => {
    const { value, problems } = await operations.projectionReports()
    const runs = value.some(({ rebuild }) => rebuild?.state === 'running')
    return operationsPage(
      '/projections',
      html`<div ${refreshed(visit, runs ? 1 : EVERY_S, 'projections')}>
${problemBox(problems)}
<section class="card"><h2>Projections</h2>
<p class="hint">Each makes a view of what the log says, in PostgreSQL. A view can be made anew from the log at any time, beside the one that is read;
reading, accepting and sending go on.</p>
${
        table('Projections', [
          {
            name: 'View',
            kind: 'wide',
            cell: ({ name, version }) =>
              html`<strong>${name}</strong> <span class="hint">version ${version}<br>${SHOWS[name]!}</span>`
          },
          { name: 'State', cell: stateOf },
          { name: 'Dead-lettered', kind: 'num', cell: ({ status }) => deadLettersOf(status) },
          { name: 'Size', kind: 'num', cell: ({ status }) => (status === null ? none() : size(status.bytes)) },
          { name: 'Made', cell: ({ status }) => time(status?.createdAt, visit.nowMs) },
          { name: 'Rebuild', kind: 'wide', cell: projection => rebuildOf(visit, projection) }
        ], value)
      }</section></div>
<p class="hint">From a shell: <code>jetpost rebuild emails</code> does the same, and <code>jetpost verify</code> proves views against the log without changing them.</p>`
    )
  })

  pages.post('/operations/projections/:name/rebuild', async visit => {
    const name = known(visit)
    const refused = await operations.projections.rebuild(name)
    if (refused !== null) throw new Unfit(refused)
    log.info({ projection: name, account: visit.account.id, keyId: visit.key.id }, 'a rebuild was asked for')
    return { to: PAGE, notice: `The view ${name} is made anew. This page shows how far it is; you may leave it.` }
  })

  pages.post('/operations/projections/:name/stop', async visit => {
    const name = known(visit)
    const notice = operations.projections.stopRebuild(name)
      ? `The rebuild of ${name} is stopped. The next one goes on from where it was.`
      : `No rebuild of ${name} runs here.`
    return { to: PAGE, notice }
  })

  function known ({ params: { name } }: Visit): string {
    if (!Object.hasOwn(SHOWS, name!)) throw new Missing('There is no such projection.')
    return name!
  }
}

const SHOWS: Record<string, string> = {
  emails: 'Lists, search, timelines',
  deliveries: 'Webhook deliveries and their attempts',
  suppressions: 'Suppressed addresses',
  templates: 'Templates and their versions',
  stats: 'Counts and rates by hour',
  usage: 'Counts of closed months',
  erasures: 'What was forgotten, and when'
}

const none = () => html`<span class="none">–</span>`

function stateOf ({ lag, status, isRebuiltElsewhere }: ProjectionReport): Html {
  if (status === null) {
    return isRebuiltElsewhere
      ? badge('being made', 'busy')
      : html`<span class="none">not known</span>`
  }
  if (lag === null) return html`<span class="none">not known</span>`
  const state = judgeLag(lag)
  if (state === 'up to date') return badge(state, 'good')
  return html`${state === 'busy' ? badge('catching up', 'busy') : badge(state)}<br><span class="hint">${
    counted(lag.facts, 'fact')
  }, ${span(lag.seconds * 1000)}</span>`
}

function deadLettersOf (status: ProjectionReport['status']): Value {
  if (status === null) return none()
  return status.deadLetters === 0
    ? '0'
    : html`<a href="/dashboard/operations/dead-letters">${number(status.deadLetters)}</a>`
}

function rebuildOf (visit: Visit, { name, status, factsMax, isRebuiltElsewhere, rebuild }: ProjectionReport): Html {
  if (rebuild?.state === 'running') {
    return html`${progressOf(name, rebuild)}${act(visit, 'Stop', { action: `${PAGE}/${name}/stop` })}`
  }
  if (isRebuiltElsewhere) {
    return html`${badge('being made', 'busy')} <span class="hint">by another process, or by the projector itself</span>`
  }
  const facts = factsMax === null ? 'the facts of its streams' : `up to ${counted(factsMax, 'fact')}`
  const disk = status === null ? '' : ` and writes a second copy of about ${size(status.bytes)}`
  const cost = `It reads ${facts}${disk}; then the two change places.`
  const confirm =
    `Make the view ${name} anew? ${cost} Nobody waits: reading, accepting and sending go on, though NATS and PostgreSQL have more to do meanwhile.`
  return html`${endOf(visit, rebuild)}${
    act(visit, 'Rebuild', { action: `${PAGE}/${name}/rebuild`, confirm, confirmLabel: `Rebuild ${name}` })
  }`
}

function progressOf (name: string, { progress }: Rebuild): Html {
  const { stage, done, total, perS, leftS } = progress ?? NO_PROGRESS
  const share = total === 0 ? 0 : done / total
  const bar = stage === 'facts' || stage === 'indexes'
    ? barOf(name, total, done)
    : html`<progress aria-label="Rebuild of ${name}"></progress>`
  const speed = [
    ...(perS === 0 ? [] : [`${number(Math.round(perS))} a second`]),
    ...(leftS === null ? [] : [`${span(Math.ceil(leftS) * 1000)} left`])
  ]
  const text = stage === 'facts'
    ? [`${Math.floor(share * 100)} %, ${number(done)} of ${counted(total, 'fact')}`, ...speed].join(' · ')
    : STAGES[stage]
  return html`<div class="steps">${bar}<span class="hint">${text}</span></div>`
}

function barOf (name: string, total: number, done: number): Html {
  return html`<progress aria-label="Rebuild of ${name}" max="${Math.max(1, total)}" value="${done}"></progress>`
}

const NO_PROGRESS = { stage: 'beginning', done: 0, total: 0, perS: 0, leftS: null } as const

const STAGES = {
  beginning: 'It begins.',
  indexes: 'All facts are read; its indexes are made.',
  'catching up': 'It catches up with what came meanwhile.'
}

function endOf (visit: Visit, rebuild: Rebuild | null): Html | null {
  if (rebuild === null || rebuild.state === 'running') return null
  const when = time(new Date(rebuild.endedMs!), visit.nowMs)
  const { state, reason, facts, seconds } = rebuild
  const texts = {
    done: html`${when}: ${counted(facts, 'fact')} in ${seconds.toFixed(1)} s`,
    failed: html`${when}: ${reason}`,
    stopped: html`${when}; the next one goes on from there`
  }
  return html`<p role="status">${badge(state)} <span class="hint">${texts[state]}</span></p>`
}
