import { mayDo, SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { html, type Html } from '#src/base/html.ts'
import type { ProjectionReport } from '#src/operations/projection-monitor.ts'
import { CHART_ASSETS } from '../charts.ts'
import { curlFor, FIRST_EMAIL } from '../curl.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { ifAvailable } from '../error-pages.ts'
import {
  buttonTo,
  badge,
  codeBlock,
  faultBox,
  faultsIn,
  field,
  heading,
  hiddenField,
  live,
  NO_FAULTS,
  select,
  tabs,
  withQuery,
  type Faults
} from '../parts.ts'
import type { Pages, Visit } from '../visit.ts'
import { concernsCard } from './concerns.ts'
import { concernsOf } from './overview-concerns.ts'
import {
  charts,
  periodOf,
  PERIODS,
  readFigures,
  readTests,
  tiles,
  type Period,
  type PeriodFigures
} from './overview-figures.ts'
import { createQueueReader, queueCard } from './overview-queue.ts'

const REFRESH_S = 10
/** At least so long between two refreshes: the page reads a lot. */
const GAP_S = 5
const UNAVAILABLE = html`<p class="box warn" role="status">Statistics are unavailable. Emails are still sent.</p>`

/** The overview: what needs attention, the queue, statistics. */
export function overviewPages (pages: Pages, context: DashboardContext): void {
  const queueOf = createQueueReader(context.reads, context.services.factLog.clock)

  pages.get('/overview', 'emails:list', async visit => {
    const period = periodOf(visit.query)
    const [waiting, newestMail] = [queueOf(visit.account.id), ifAvailable(visit.api.emails.page({ limit: 1 }))]
    const [newest, queue, views, figures, tests, concerns] = await Promise.all([
      newestMail,
      waiting,
      visit.isOperator ? viewsOf(context) : null,
      figuresFor(visit, period),
      ifAvailable(readTests(visit, period)),
      concernsOf(visit, context, waiting)
    ])
    const { stats, faults } = figures
    // Statistics outlive their emails.
    const hasMail = newest === null || newest.data.length > 0 || (stats?.now.accepted ?? 0) > 0
    const start = startCard(visit, context, hasMail)
    const attention = hasMail || concerns.length > 0 ? concernsCard(concerns, '/dashboard/overview') : null
    const numbers = stats === null
      ? html`${faults === NO_FAULTS ? UNAVAILABLE : faultBox(faults)}`
      : html`${tiles(stats, tests ?? 0)}${charts(stats)}`
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
<form class="filters" method="get" action="/dashboard/overview">${hiddenField('period', period.name)}
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

interface StartStep {
  name: string
  text: Html
  done: boolean
  to: string
  link: string | null
}

/** The first steps of a new account, in order. */
function stepsOf (
  { account: { id } }: Visit,
  { services: { directory: { now } } }: DashboardContext,
  hasMail: boolean
): StartStep[] {
  const own = <T extends { account: string }>(things: Map<string, T>): T[] =>
    [...things.values()].filter(({ account }) => account === id)
  const domains = own(now.domains)
  return [
    {
      name: 'Create a key for your application',
      text: html`To send emails, the scope <code>emails:send</code> is enough.`,
      done: own(now.keys).some(key => mayDo(key, 'emails:send') && !key.scopes.includes('full')),
      to: '/dashboard/keys/new',
      link: 'Create a key'
    },
    {
      name: 'Send your first email',
      text: html`Every account can send from <code>${SANDBOX_DOMAIN}</code>.${!hasMail && ' The command is below.'}`,
      done: hasMail,
      to: '/dashboard/emails',
      link: null
    },
    {
      name: 'Add your domain',
      text: html`Publish its DNS records. Jetpost checks them and verifies the domain.`,
      done: domains.some(({ status }) => status === 'verified'),
      to: '/dashboard/domains',
      link: domains.length === 0 ? 'Add a domain' : 'Open DNS records'
    },
    {
      name: 'Add a webhook endpoint',
      text: html`Your application gets signed events: delivered, bounced, opened, clicked, complained, unsubscribed.`,
      done: own(now.webhooks).length > 0,
      to: '/dashboard/webhooks',
      link: 'Add an endpoint'
    }
  ]
}

/** The first steps; null once the account has sent emails and has a verified domain. */
function startCard (visit: Visit, context: DashboardContext, hasMail: boolean): Html | null {
  const steps = stepsOf(visit, context, hasMail)
  if (hasMail && steps[2]!.done) return null
  const lines = steps.map(({ name, text, done, to, link }) =>
    html`<li class="${done ? 'good' : 'busy'}"><div><strong>${name}</strong> ${
      done && badge('done')
    }<p>${text}</p></div>
${!done && link !== null && buttonTo(visit, to, link)}</li>`
  )
  return html`<section class="card"><h2>${
    hasMail ? 'Next steps' : 'Get started'
  }</h2><ol class="concerns">${lines}</ol></section>
${
    !hasMail && html`<section class="card"><h2>Send it from the command line</h2>
<p class="hint">With a key in <code>JETPOST_API_KEY</code>. The email appears on this page.</p>
${codeBlock(curlFor(context.publicUrl, '/api/emails', FIRST_EMAIL), 'The first email as a command')}</section>`
  }`
}
