import { REPLAY_PACE, type ReplayWish } from '#streams/replay/decide.ts'
import { PACE_MAX } from '#streams/replay/facts.ts'
import { Refusal } from '#streams/define.ts'
import { failedPages } from '#src/actions/delivery-view.ts'
import { cancelReplay, countReplay, replaysOf, requestReplay, type ReplayCount } from '#src/actions/replay.ts'
import { timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import { newId } from '#src/base/id.ts'
import {
  empty,
  detailList,
  fault,
  faultBox,
  field,
  form,
  heading,
  live,
  NO_FAULTS,
  number,
  select,
  duration,
  table,
  type Column,
  type Faults
} from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { NOT_A_TIME, timeField, timeIn } from '../times.ts'
import { createFieldReader, fieldText } from '../field-reader.ts'
import { resultOrThrow, type PageResult, type Pages, type Visit } from '../visit.ts'
import { replayTable } from './webhook-replays.ts'
import { stretchText } from './webhook-format.ts'

/** Counting reads all that would be sent: nobody waits for longer in front of a page. */
const COUNT_MS = 8000
const HOUR_MS = 3_600_000

/** Not all of the thirty days: they are what is kept, and go on while somebody looks at a count. */
const SINCE: Array<[hours: string, text: string]> = [
  ['1', 'The last hour'],
  ['6', 'The last 6 hours'],
  ['24', 'The last 24 hours'],
  ['168', 'The last 7 days'],
  ['719', 'The last 30 days']
]
const SINCE_DEFAULT = '24'
const WHAT_TEXTS: Record<ReplayWish['what'], string> = {
  failed: 'What failed',
  window: 'All events that it listens to'
}

/** `/webhooks/:id/replay`: a form, what it would send, and then that. */
export function replayPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/:id/replay', async visit => {
    const { id, url } = await visit.api.webhooks.get(visit.params.id!)
    if (!visit.query.has('what')) return replayPage(visit, { id, url }, NO_FAULTS, null)
    const { wish, faults } = requestIn(visit.query, visit.nowMs)
    const count = faults.summary === null ? await dryRun(visit, context, id, wish) : null
    if (count instanceof Refusal) return replayPage(visit, { id, url }, fault(count.message), null)
    return replayPage(visit, { id, url }, faults, count && countedCard(visit, id, wish, count))
  })

  pages.post('/webhooks/:id/replay', async visit => {
    const id = visit.params.id!
    const { wish, faults } = requestIn(visit.form, visit.nowMs)
    if (faults.summary !== null) return replayPage(visit, await visit.api.webhooks.get(id), faults, null)
    resultOrThrow(await requestReplay(context.services, visit.asker, id, wish, fieldText(visit.form, 'once')))
    return { to: `/dashboard/webhooks/${id}#replays`, notice: 'The replay has begun.' }
  })

  pages.get('/webhooks/:id/replays', async visit => {
    const { id, url } = await visit.api.webhooks.get(visit.params.id!)
    const replays = await replaysOf(context.services, id)
    const list = replays.length === 0
      ? empty('No replay', 'None was asked for in the last 30 days.')
      : replayTable(visit, replays)
    const page = html`${heading('Replays', null, above(id, url))}<div ${
      live(visit, 'deliveries', 'replays')
    }>${list}</div>`
    return { title: 'Replays', section: 'webhooks', page }
  })

  pages.post('/webhooks/:id/replays/:replay/cancel', async visit => {
    resultOrThrow(await cancelReplay(context.services, visit.asker, visit.params.replay!))
    return { to: `/dashboard/webhooks/${visit.params.id!}#replays`, notice: 'The replay is canceled.' }
  })
}

/** Of the form, or of what was counted: whole times, so that what is confirmed is what was counted. */
function requestIn (given: URLSearchParams, nowMs: number): { wish: ReplayWish, faults: Faults } {
  const { read, faults } = createFieldReader(given)
  const [hours] = /^\d{1,4}$/.exec(given.get('since') ?? '') ?? [SINCE_DEFAULT]
  const [from, to] = [read('from', timeIn, NOT_A_TIME), read('to', timeIn, NOT_A_TIME)]
  const wish: ReplayWish = {
    what: given.get('what') === 'window' ? 'window' : 'failed',
    fromMs: from === undefined ? nowMs - Number(hours) * HOUR_MS : Date.parse(from),
    toMs: to === undefined ? nowMs : Date.parse(to),
    pace: read(
      'pace',
      text => (/^\d{1,5}$/.test(text) ? Number(text) : null),
      `The pace is 1 to ${PACE_MAX} deliveries a second.`
    ) ?? REPLAY_PACE
  }
  return { wish, faults: faults() }
}

async function dryRun (
  { asker }: Visit,
  { services, reads }: DashboardContext,
  id: string,
  wish: ReplayWish
): Promise<ReplayCount | Refusal> {
  return await countReplay(services, asker, id, wish, failedPages(reads.pool), AbortSignal.timeout(COUNT_MS))
}

function replayPage (
  visit: Visit,
  { id, url }: { id: string, url: string },
  faults: Faults,
  counted: Html | null
): PageResult {
  const page = html`${heading('Replay', null, above(id, url))}
<section class="card"><p class="hint">What is sent again has the same id and the same bytes as before: a receiver that has taken it already can tell. New events go first.</p>
${faultBox(faults)}
${requestForm(visit, id, faults)}</section>
${counted}`
  return { title: 'Replay', section: 'webhooks', page, status: faults.summary === null ? 200 : 422 }
}

function above (id: string, url: string): Html {
  return html`<a href="/dashboard/webhooks">Webhooks</a> / <a href="/dashboard/webhooks/${id}">${url}</a>`
}

function requestForm ({ query, nowMs }: Visit, id: string, faults: Faults): Html {
  const chosen = (name: string, unless: string) => query.get(name) ?? unless
  return html`<form method="get" action="/dashboard/webhooks/${id}/replay" class="fields"><div class="columns">
${select('what', 'What', Object.entries(WHAT_TEXTS), chosen('what', 'failed'))}
${select('since', 'When', SINCE, chosen('since', SINCE_DEFAULT))}
${
    timeField({
      name: 'from',
      label: 'or from (UTC)',
      value: fieldText(query, 'from'),
      hint: 'Instead of the choice before.'
    }, faults)
  }
${
    timeField({
      name: 'to',
      label: 'up to (UTC)',
      value: fieldText(query, 'to'),
      hint: `Empty = now, ${timestamp(nowMs).slice(11, 16)} UTC.`
    }, faults)
  }
${
    field({
      name: 'pace',
      label: 'Deliveries a second',
      type: 'number',
      value: chosen('pace', String(REPLAY_PACE)),
      hint: `1 to ${PACE_MAX}.`
    }, faults)
  }
</div><div class="actions"><button class="primary">Count what it would send</button></div></form>`
}

function countedCard (
  visit: Visit,
  id: string,
  { what, fromMs, toMs, pace }: ReplayWish,
  { deliveries, events, types, whole }: ReplayCount
): Html {
  const [from, to] = [timestamp(fromMs), timestamp(toMs)]
  const stretch = stretchText(from, to)
  if (deliveries === 0 && whole) return nothingCard(what, stretch)
  const least = whole ? '' : 'at least '
  const hidden = Object.entries({ what, from, to, pace, once: newId('rpl', visit.nowMs) }).map(([name, value]) =>
    html`<input type="hidden" name="${name}" value="${value}">`
  )
  const columns: Array<Column<[string, number]>> = [{ name: 'Type', kind: 'wide', cell: ([type]) => type }, {
    name: 'Events',
    kind: 'num',
    cell: ([, n]) => number(n)
  }]
  return html`<section class="card" role="status"><h2>It would send ${least}${number(deliveries)} ${
    deliveries === 1 ? 'delivery' : 'deliveries'
  }</h2>
${
    detailList([['What', WHAT_TEXTS[what]], ['Then', stretch], ['Events', `${least}${number(events)}`], [
      'Takes',
      `${least}${duration(Math.ceil(deliveries / pace) * 1000)}`
    ]])
  }
${!whole && html`<p class="hint">Counting stopped there, so that nobody waits for it; the replay goes to the end.</p>`}
${
    form(
      visit,
      { action: `/dashboard/webhooks/${id}/replay`, class: 'under' },
      html`${hidden}<button class="primary">Send ${sentText(deliveries, whole)} again</button>`
    )
  }
${table('Events by type', columns, Object.entries(types))}</section>`
}

function nothingCard (what: ReplayWish['what'], stretch: string): Html {
  const why = what === 'failed' ? 'Nothing that failed then is still failed' : 'No event of its types happened then'
  return html`<section class="card" role="status"><h2>Nothing to send</h2><p>${why}: ${stretch}.</p></section>`
}

function sentText (deliveries: number, whole: boolean): string {
  if (!whole) return 'all of it'
  return deliveries === 1 ? 'it' : `these ${number(deliveries)}`
}
