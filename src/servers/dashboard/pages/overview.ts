import { html, type Html } from '#src/base/html.ts'
import { CHART_ASSETS } from '../charts.ts'
import {
  faultBox,
  faultsIn,
  field,
  heading,
  live,
  hiddenField,
  NO_FAULTS,
  select,
  tabs,
  withQuery,
  type Faults
} from '../parts.ts'
import type { ProjectionReport } from '#src/operations/projection-monitor.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages, Visit } from '../visit.ts'
import { concernsCard } from './concerns.ts'
import { concernsOf } from './overview-concerns.ts'
import { charts, PERIODS, periodOf, readFigures, tiles, type Period, type PeriodFigures } from './overview-figures.ts'
import { ifAvailable } from '../if-available.ts'
import { createQueueReader, queueCard } from './overview-queue.ts'
import { startCard } from './overview-start.ts'

const REFRESH_S = 10
/** At least so long between two refreshes: the page reads a lot. */
const GAP_S = 5
const UNAVAILABLE = html`<p class="box warn" role="status">Statistics are unavailable. Emails are still sent.</p>`

/** The overview: what needs attention, the queue, statistics. */
export function overviewPages (pages: Pages, context: DashboardContext): void {
  const queueOf = createQueueReader(context.reads, context.services.appenders.clock)

  pages.get('/', async visit => {
    const period = periodOf(visit.query)
    const [waiting, newestMail] = [queueOf(visit.account.id), ifAvailable(visit.api.emails.page({ limit: 1 }))]
    const [newest, queue, views, figures, concerns] = await Promise.all([
      newestMail,
      waiting,
      visit.isOperator ? viewsOf(context) : null,
      figuresFor(visit, period),
      concernsOf(visit, context, waiting)
    ])
    const { stats, faults } = figures
    // Statistics outlive their emails.
    const hasMail = newest === null || newest.data.length > 0 || (stats?.now.accepted ?? 0) > 0
    const start = startCard(visit, context, hasMail)
    const attention = hasMail || concerns.length > 0 ? concernsCard(concerns, '/dashboard') : null
    const numbers = stats === null
      ? html`${faults === NO_FAULTS ? UNAVAILABLE : faultBox(faults)}`
      : html`${tiles(stats)}${charts(stats)}`
    const body = hasMail
      ? html`${attention}${queue !== null && queueCard(queue, views, visit.nowMs)}${numbers}${start}`
      : html`${start}${attention}`
    // The filters appear with the first email. From then on they do not refresh: the visitor may be typing.
    const page = html`${heading('Overview')}<div ${hasMail ? html`id="overview"` : live(visit, 'emails', 'overview')}>${
      hasMail && filters(visit, context, period, faults)
    }
<div ${live(visit, 'emails', 'figures', REFRESH_S, GAP_S)}>${body}</div></div>`
    return {
      title: 'Overview',
      section: 'overview',
      page,
      assets: CHART_ASSETS,
      status: faults === NO_FAULTS ? 200 : 422
    }
  })
}

async function viewsOf ({ operations }: DashboardContext): Promise<ProjectionReport[] | null> {
  const report = await ifAvailable(operations.projectionReports())
  return report === null || report.problems.length > 0 ? null : report.value
}

/** `stats` null = unavailable, or the filters have faults. */
async function figuresFor (visit: Visit, period: Period): Promise<{ stats: PeriodFigures | null, faults: Faults }> {
  try {
    return { stats: await ifAvailable(readFigures(visit, period)), faults: NO_FAULTS }
  } catch (error) {
    return { stats: null, faults: faultsIn(error) }
  }
}

function filters (
  visit: Visit,
  { services: { directory: { now } } }: DashboardContext,
  period: Period,
  faults: Faults
): Html {
  const names = [...now.domains.values()].filter(({ account }) => account === visit.account.id).map(({ name }) => name)
    .sort()
  const chosen = visit.query.get('domain') ?? ''
  const listed = chosen === '' || names.includes(chosen) ? names : [chosen, ...names]
  const periods = PERIODS.map(({ name, text }) => ({
    href: withQuery(visit, { period: name }),
    text,
    isCurrent: name === period.name
  }))
  return html`${tabs('Period', periods)}
<form class="filters" method="get" action="/dashboard">${hiddenField('period', period.name)}
${
    select(
      'domain',
      'Sending domain',
      [['', 'All'], ...listed.map((name): [string, string] => [name, name])],
      chosen,
      html`data-submit`
    )
  }
${
    field({ name: 'tag', label: 'Tag', value: visit.query.get('tag') ?? '', type: 'search' }, faults)
  }<button>Show</button></form>`
}
