import { noteOperation } from '#src/actions/operation.ts'
import { html, type Html } from '#src/base/html.ts'
import type { ProjectionDeadLetters } from '#src/operations/projection-monitor.ts'
import { OperationsUnavailable } from '#src/operations/report.ts'
import { actionButton, counted, empty, number, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, type Pages, type Visit } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const PAGE = '/dashboard/operations/dead-letters'
const NOTHING = 'A fact that a projection cannot write is dead-lettered: set aside here with the reason, while the ' +
  'projection continues.'

/** Facts that projections could not write, and retrying them. */
export function deadLetterPages (pages: Pages, { operations, services: { factLog } }: DashboardContext): void {
  pages.get('/operations/dead-letters', 'operator', async visit => {
    const { value, problems } = await operations.projections.deadLetters()
    const nothing = problems.length === 0 && empty('No dead-lettered facts', NOTHING)
    return operationsPage(
      '/dead-letters',
      html`${problemBox(problems)}${
        value.length === 0 ? nothing : html`${WHAT_TO_DO}${value.map(report => sectionOf(visit, report))}`
      }`
    )
  })

  pages.post('/operations/dead-letters/:name/retry', 'operator', async visit => {
    const { value, problems } = await operations.projections.deadLetters()
    if (problems.length > 0) throw new OperationsUnavailable(problems.join(' '))
    const report = value.find(({ projection }) => projection === visit.params.name)
    if (report === undefined) throw new PageNotFound('This projection has no dead-lettered facts any more.')
    await noteOperation(factLog, visit.asker, { operation: 'dead_letters.retried', subject: report.projection })
    const left = await operations.projections.retryDeadLetters(report.projection)
    return { to: PAGE, notice: noticeOf(report, left) }
  })
}

function noticeOf ({ projection, count }: ProjectionDeadLetters, left: number | null): string {
  if (left === null) return 'The retry of dead-lettered facts takes longer. Check again soon.'
  if (left === 0) return `No dead-lettered facts left in ${projection}.`
  const written = counted(Math.max(0, count - left), 'fact')
  return `Retried: ${projection} wrote ${written} and could not write ${number(left)}. The reasons are below.`
}

const WHAT_TO_DO = html`<section class="card"><h2>What to do</h2>
<p>A projection could not write these facts. They are safe in the log, but lists and statistics lack them. Jetpost
retries them at each start and every ten minutes.</p>
<ul><li><strong>Unknown or unexpected fact:</strong> a newer version of Jetpost, or another program, wrote it. Run the
newer version everywhere.</li>
<li><strong>PostgreSQL refused a value:</strong> read the reason, fix the database, and retry.</li>
<li><strong>To check for other differences:</strong> <code>jetpost verify</code> compares a projection with the log, row
by row.</li></ul></section>`

function sectionOf (visit: Visit, { projection, count, facts }: ProjectionDeadLetters): Html {
  const retry = actionButton(visit, 'Retry now', { action: `${PAGE}/${projection}/retry` })
  return html`<section class="card"><div class="head"><h2>${projection}: ${
    counted(count, 'dead-lettered fact')
  }</h2><div class="actions">${retry}</div></div>
${facts.length < count && html`<p class="hint">The newest ${facts.length}.</p>`}
${
    table(`Dead-lettered facts of ${projection}`, [
      { name: 'Stream', cell: ({ stream }) => stream },
      { name: 'Sequence', kind: 'num', cell: ({ seq }) => number(seq) },
      { name: 'Subject', cell: ({ subject }) => html`<code>${subject}</code>` },
      { name: 'Reason', kind: 'wide', cell: ({ reason }) => reason },
      { name: 'Since', cell: ({ at }) => time(at, visit.nowMs) }
    ], facts)
  }</section>`
}
