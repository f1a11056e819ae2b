import { html, type Html } from '#src/base/html.ts'
import type { ProjectionDeadLetters } from '#src/operations/projection-monitor.ts'
import { OperationsUnavailable } from '#src/operations/report.ts'
import { actionButton, counted, empty, number, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, type Pages, type Visit } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const PAGE = '/dashboard/operations/dead-letters'
const NOTHING =
  'A fact that a view cannot take is put aside with the reason, and the view goes on without it. It would be listed here.'

/** Facts that views go on without. */
export function deadLetterPages (pages: Pages, { operations }: DashboardContext): void {
  pages.get('/operations/dead-letters', async visit => {
    const { value, problems } = await operations.projections.deadLetters()
    const nothing = problems.length === 0 && empty('Nothing is dead-lettered', NOTHING)
    return operationsPage(
      '/dead-letters',
      html`${problemBox(problems)}${
        value.length === 0 ? nothing : html`${WHAT_TO_DO}${value.map(report => sectionOf(visit, report))}`
      }`
    )
  })

  pages.post('/operations/dead-letters/:name/retry', async visit => {
    const { value, problems } = await operations.projections.deadLetters()
    if (problems.length > 0) throw new OperationsUnavailable(problems.join(' '))
    const report = value.find(({ projection }) => projection === visit.params.name)
    if (report === undefined) throw new PageNotFound('Nothing is dead-lettered there any more.')
    const left = await operations.projections.retryDeadLetters(report.projection)
    return { to: PAGE, notice: noticeOf(report, left) }
  })
}

function noticeOf ({ projection, count }: ProjectionDeadLetters, left: number | null): string {
  if (left === null) return 'The dead-lettered facts are being tried again; it takes a while. Look again soon.'
  if (left === 0) return `All dead-lettered facts of ${projection} are done with.`
  return `Tried again: ${counted(Math.max(0, count - left), 'fact')} of ${projection} could be taken, ${
    number(left)
  } could not, for the reasons below.`
}

const WHAT_TO_DO = html`<section class="card"><h2>What this is, and what to do</h2>
<p>These facts are in the log, whole and safe; a view could not take them, so lists and figures lack them.
They are tried again at each start, every ten minutes, and when you say so.</p>
<ul><li><strong>An unknown fact, or one that does not fit:</strong> a newer version of Jetpost wrote it, or something that is not Jetpost. Run the newer version everywhere.</li>
<li><strong>PostgreSQL refuses a value:</strong> look at the reason, mend the database where it is at fault, and try again.</li>
<li><strong>Is anything else missing?</strong> <code>jetpost verify</code> compares the view with the log, row by row.</li></ul></section>`

function sectionOf (visit: Visit, { projection, count, facts }: ProjectionDeadLetters): Html {
  const again = actionButton(visit, 'Try again now', { action: `${PAGE}/${projection}/retry` })
  return html`<section class="card"><div class="head"><h2>${projection}: ${
    counted(count, 'dead-lettered fact')
  }</h2><div class="actions">${again}</div></div>
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
