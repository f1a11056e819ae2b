import { noteOperation } from '#src/actions/operation.ts'
import { html, type Html, type Value } from '#src/base/html.ts'
import { lagState } from '#src/operations/thresholds.ts'
import type { ProjectionReport, Rebuild } from '#src/operations/projection-monitor.ts'
import { actionButton, badge, counted, number, refreshed, size, duration, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, FormRefused, type Pages, type Visit } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const REFRESH_S = 5
const PAGE = '/dashboard/operations/projections'

/** The projections, and rebuilding them. */
export function projectionsPages (pages: Pages, { operations, services: { factLog }, log }: DashboardContext): void {
  pages.get('/operations/projections', 'operator', async visit => {
    const { value, problems } = await operations.projectionReports()
    const runs = value.some(({ rebuild }) => rebuild?.state === 'running')
    return operationsPage(
      '/projections',
      html`<div ${refreshed(visit, runs ? 1 : REFRESH_S, 'projections')}>
${problemBox(problems)}
<section class="card"><h2>Projections</h2>
<p class="hint">A projection writes facts of the log into tables of PostgreSQL. You can rebuild it from the log at any
time; everything else works meanwhile.</p>
${
        table('Projections', [
          {
            name: 'Projection',
            kind: 'wide',
            cell: ({ name, version }) =>
              html`<strong>${name}</strong> <span class="hint">version ${version}<br>${SHOWS[name]!}</span>`
          },
          { name: 'Status', cell: stateOf },
          { name: 'Dead-lettered', kind: 'num', cell: ({ status }) => deadLettersOf(status) },
          { name: 'Size', kind: 'num', cell: ({ status }) => (status === null ? none() : size(status.bytes)) },
          { name: 'Built', cell: ({ status }) => time(status?.createdAt, visit.nowMs) },
          { name: 'Rebuild', kind: 'wide', cell: projection => rebuildOf(visit, projection) }
        ], value)
      }</section></div>
<p class="hint">In a shell, <code>jetpost rebuild emails</code> does the same, and <code>jetpost verify</code> compares
projections with the log.</p>`
    )
  })

  pages.post('/operations/projections/:name/rebuild', 'operator', async visit => {
    const name = known(visit)
    await noteOperation(factLog, visit.asker, { operation: 'rebuild.requested', subject: name })
    const refused = await operations.projections.rebuild(name)
    if (refused !== null) throw new FormRefused(refused)
    log.info({ projection: name, account: visit.account.id, keyId: visit.principal.id }, 'rebuild requested')
    return { to: PAGE, notice: `Rebuild of ${name} started. This page shows its progress; you can leave it.` }
  })

  pages.post('/operations/projections/:name/stop', 'operator', async visit => {
    const name = known(visit)
    await noteOperation(factLog, visit.asker, { operation: 'rebuild.stopped', subject: name })
    const notice = operations.projections.stopRebuild(name)
      ? `Rebuild of ${name} stopped. The next one continues from there.`
      : `This process runs no rebuild of ${name}.`
    return { to: PAGE, notice }
  })

  function known ({ params: { name } }: Visit): string {
    if (!Object.hasOwn(SHOWS, name!)) throw new PageNotFound('This projection does not exist.')
    return name!
  }
}

const SHOWS: Record<string, string> = {
  emails: 'Lists, search, timelines',
  deliveries: 'Webhook deliveries and their attempts',
  suppressions: 'Suppressed addresses',
  templates: 'Templates and their versions',
  stats: 'Statistics by hour',
  usage: 'Usage of past months',
  erasures: 'Erasures and their receipts',
  audit: 'Who changed what'
}

const none = () => html`<span class="none">–</span>`

function stateOf ({ lag, status, isRebuiltElsewhere }: ProjectionReport): Html {
  if (status === null) {
    return isRebuiltElsewhere
      ? badge('rebuilding', 'busy')
      : html`<span class="none">unknown</span>`
  }
  if (lag === null) return html`<span class="none">unknown</span>`
  const state = lagState(lag)
  if (state === 'up to date') return badge(state, 'good')
  return html`${state === 'busy' ? badge('catching up', 'busy') : badge(state)}<br><span class="hint">${
    counted(lag.facts, 'fact')
  }, ${duration(lag.seconds * 1000)}</span>`
}

function deadLettersOf (status: ProjectionReport['status']): Value {
  if (status === null) return none()
  return status.deadLetters === 0
    ? '0'
    : html`<a href="/dashboard/operations/dead-letters">${number(status.deadLetters)}</a>`
}

function rebuildOf (visit: Visit, { name, status, factsMax, isRebuiltElsewhere, rebuild }: ProjectionReport): Html {
  if (rebuild?.state === 'running') {
    return html`${progressOf(name, rebuild)}${actionButton(visit, 'Stop', { action: `${PAGE}/${name}/stop` })}`
  }
  if (isRebuiltElsewhere) {
    return html`${badge('rebuilding', 'busy')} <span class="hint">in another process or by the projector</span>`
  }
  const facts = factsMax === null ? 'the facts of its streams' : `up to ${counted(factsMax, 'fact')}`
  const disk = status === null ? '' : ` and writes about ${size(status.bytes)} to new tables`
  const confirm = `Rebuild ${name}? It reads ${facts}${disk}, which then replace the present ones. ` +
    'Everything else works meanwhile, but NATS and PostgreSQL have more load.'
  return html`${endOf(visit, rebuild)}${
    actionButton(visit, 'Rebuild', { action: `${PAGE}/${name}/rebuild`, confirm, confirmLabel: `Rebuild ${name}` })
  }`
}

function progressOf (name: string, { progress }: Rebuild): Html {
  const { stage, done, total, perS, leftS } = progress ?? NO_PROGRESS
  const share = total === 0 ? 0 : done / total
  const bar = stage === 'facts' || stage === 'indexes'
    ? barOf(name, total, done)
    : html`<progress aria-label="Rebuild of ${name}"></progress>`
  const speed = [
    ...(perS === 0 ? [] : [`${number(Math.round(perS))} per second`]),
    ...(leftS === null ? [] : [`${duration(Math.ceil(leftS) * 1000)} left`])
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
  beginning: 'Starting.',
  indexes: 'All facts read. Building indexes.',
  'catching up': 'Catching up with new facts.'
}

function endOf (visit: Visit, rebuild: Rebuild | null): Html | null {
  if (rebuild === null || rebuild.state === 'running') return null
  const when = time(new Date(rebuild.endedMs!), visit.nowMs)
  const { state, reason, facts, seconds } = rebuild
  const texts = {
    done: html`${when}: ${counted(facts, 'fact')} in ${seconds.toFixed(1)} s`,
    failed: html`${when}: ${reason}`,
    stopped: html`${when}; the next one continues from there`
  }
  return html`<p role="status">${badge(state)} <span class="hint">${texts[state]}</span></p>`
}
