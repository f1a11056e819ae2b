import { REPLAY_PACE, type ReplayWish } from '#streams/replay/decide.ts'
import { PACE_MAX } from '#streams/replay/facts.ts'
import { Refusal } from '#streams/define.ts'
import { failedPages } from '#src/actions/delivery-view.ts'
import {
  cancelReplay,
  countReplay,
  findReplay,
  replaysOf,
  requestReplay,
  type ReplayCount
} from '#src/actions/replay.ts'
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
  hiddenField,
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
import { createFieldReader, fieldText } from './webhook-queries.ts'
import { PageNotFound, resultOrThrow, type PageResult, type Pages, type Visit } from '../visit.ts'
import { replayProgress, replayTable } from './webhook-replays.ts'
import { periodText } from './webhook-format.ts'

/** Counting reads everything that would be sent; it stops after this time. */
const COUNT_MS = 8000
const HOUR_MS = 3_600_000
/** No fact reports what a replay waits for. */
const REFRESH_S = 3

/** An hour less than 30 days, after which deliveries expire: some would while the visitor reads the count. */
const SINCE: Array<[hours: string, text: string]> = [
  ['1', 'The last hour'],
  ['6', 'The last 6 hours'],
  ['24', 'The last 24 hours'],
  ['168', 'The last 7 days'],
  ['719', 'The last 30 days']
]
const SINCE_DEFAULT = '24'
const WHAT_TEXTS: Record<ReplayWish['what'], string> = {
  failed: 'Failed deliveries',
  window: 'All events of its types'
}

/** `/webhooks/:id/replay`: a form, the count of what a replay would send, and the replay. */
export function replayPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/:id/replay', 'webhooks:write', async visit => {
    const { id, url } = await visit.api.webhooks.get(visit.params.id!)
    if (!visit.query.has('what')) return replayPage(visit, { id, url }, NO_FAULTS, null)
    const { request, faults } = requestIn(visit.query, visit.nowMs)
    const count = faults.summary === null ? await dryRun(visit, context, id, request) : null
    if (count instanceof Refusal) return replayPage(visit, { id, url }, fault(count.message), null)
    return replayPage(visit, { id, url }, faults, count && countedCard(visit, id, request, count))
  })

  pages.post('/webhooks/:id/replay', 'webhooks:write', async visit => {
    const id = visit.params.id!
    const { request, faults } = requestIn(visit.form, visit.nowMs)
    if (faults.summary !== null) return replayPage(visit, await visit.api.webhooks.get(id), faults, null)
    const wanted = requestReplay(context.services, visit.asker, id, request, fieldText(visit.form, 'once'))
    const { replay } = resultOrThrow(await wanted)
    const of = /^\d{1,9}$/.exec(fieldText(visit.form, 'of'))?.[0]
    const query = of === undefined ? '' : `?of=${of}`
    return { to: `/dashboard/webhooks/${id}/replays/${replay}${query}`, notice: 'Replay started.' }
  })

  pages.get('/webhooks/:id/replays', 'webhooks:read', async visit => {
    const { id, url } = await visit.api.webhooks.get(visit.params.id!)
    const replays = await replaysOf(context.services, id)
    const list = replays.length === 0
      ? empty('No replays', 'There were none in the last 30 days.')
      : replayTable(visit, replays)
    const page = html`${heading('Replays', null, above(id, url))}<div ${
      live(visit, 'deliveries', 'replays')
    }>${list}</div>`
    return { title: 'Replays', section: 'webhooks', page }
  })

  pages.get('/webhooks/:id/replays/:replay', 'webhooks:read', async visit => {
    const { id, url } = await visit.api.webhooks.get(visit.params.id!)
    const replay = resultOrThrow(await findReplay(context.services, visit.asker, visit.params.replay!))
    if (replay.webhook !== id) throw new PageNotFound()
    const marks = live(visit, 'deliveries', 'replays', replay.state === 'running' ? REFRESH_S : null)
    const page = html`${heading('Replay', null, above(id, url))}<div ${marks}>${replayProgress(visit, replay)}${
      replayTable(visit, [replay])
    }</div>`
    return { title: 'Replay', section: 'webhooks', page }
  })

  pages.post('/webhooks/:id/replays/:replay/cancel', 'webhooks:write', async visit => {
    resultOrThrow(await cancelReplay(context.services, visit.asker, visit.params.replay!))
    return { to: `/dashboard/webhooks/${visit.params.id!}#replays`, notice: 'Replay canceled.' }
  })
}

/** The request in the form, or in the one that confirms the count: that has full times, so that it sends what was
 *  counted. */
function requestIn (given: URLSearchParams, nowMs: number): { request: ReplayWish, faults: Faults } {
  const { read, faults } = createFieldReader(given)
  const [hours] = /^\d{1,4}$/.exec(given.get('since') ?? '') ?? [SINCE_DEFAULT]
  const [from, to] = [read('from', timeIn, NOT_A_TIME), read('to', timeIn, NOT_A_TIME)]
  const request: ReplayWish = {
    what: given.get('what') === 'window' ? 'window' : 'failed',
    fromMs: from === undefined ? nowMs - Number(hours) * HOUR_MS : Date.parse(from),
    toMs: to === undefined ? nowMs : Date.parse(to),
    pace: read(
      'pace',
      text => (/^\d{1,5}$/.test(text) ? Number(text) : null),
      `The rate must be 1 to ${PACE_MAX} deliveries per second.`
    ) ?? REPLAY_PACE
  }
  return { request, faults: faults() }
}

async function dryRun (
  { asker }: Visit,
  { services, reads }: DashboardContext,
  id: string,
  request: ReplayWish
): Promise<ReplayCount | Refusal> {
  return await countReplay(services, asker, id, request, failedPages(reads.pool), AbortSignal.timeout(COUNT_MS))
}

function replayPage (
  visit: Visit,
  { id, url }: { id: string, url: string },
  faults: Faults,
  counted: Html | null
): PageResult {
  const page = html`${heading('Replay', null, above(id, url))}
<section class="card"><p class="hint">A replayed event has the same id and the same payload as before, so that receivers
can detect it. New events are sent first.</p>
${faultBox(faults)}
${requestForm(visit, id, faults)}</section>
${counted}`
  return { title: 'Replay', section: 'webhooks', page, status: faults.summary === null ? 200 : 422 }
}

function above (id: string, url: string): Html {
  return html`<a href="/dashboard/webhooks">Webhooks</a> / <a href="/dashboard/webhooks/${id}">${url}</a>`
}

function requestForm ({ query, nowMs }: Visit, id: string, faults: Faults): Html {
  const valueOf = (name: string, preset: string) => query.get(name) ?? preset
  return html`<form method="get" action="/dashboard/webhooks/${id}/replay" class="fields"><div class="columns">
${select('what', 'Replay', Object.entries(WHAT_TEXTS), valueOf('what', 'failed'))}
${select('since', 'Period', SINCE, valueOf('since', SINCE_DEFAULT))}
${
    timeField({
      name: 'from',
      label: 'From (UTC)',
      value: fieldText(query, 'from'),
      hint: 'Replaces the period.'
    }, faults)
  }
${
    timeField({
      name: 'to',
      label: 'To (UTC)',
      value: fieldText(query, 'to'),
      hint: `If empty, now: ${timestamp(nowMs).slice(11, 16)} UTC.`
    }, faults)
  }
${
    field({
      name: 'pace',
      label: 'Deliveries per second',
      type: 'number',
      value: valueOf('pace', String(REPLAY_PACE)),
      hint: `1 to ${PACE_MAX}.`
    }, faults)
  }
</div><div class="actions"><button class="primary">Count deliveries</button></div></form>`
}

function countedCard (
  visit: Visit,
  id: string,
  { what, fromMs, toMs, pace }: ReplayWish,
  { deliveries, events, types, whole }: ReplayCount
): Html {
  const [from, to] = [timestamp(fromMs), timestamp(toMs)]
  const period = periodText(from, to)
  if (deliveries === 0 && whole) return nothingCard(what, period)
  const least = whole ? '' : 'at least '
  const hidden = Object.entries({
    what,
    from,
    to,
    pace,
    once: newId('rpl', visit.nowMs),
    ...(whole ? { of: deliveries } : {})
  })
    .map(([name, value]) => hiddenField(name, value))
  const columns: Array<Column<[string, number]>> = [
    { name: 'Type', kind: 'wide', cell: ([type]) => type },
    { name: 'Events', kind: 'num', cell: ([, n]) => number(n) }
  ]
  const details = detailList([
    ['Replay', WHAT_TEXTS[what]],
    ['Period', period],
    ['Events', `${least}${number(events)}`],
    ['Duration', `${least}${duration(Math.ceil(deliveries / pace) * 1000)}`]
  ])
  const count = `${number(deliveries)} ${deliveries === 1 ? 'delivery' : 'deliveries'}`
  const button = html`<button class="primary">Replay ${whole ? count : 'all'}</button>`
  const shortened = html`<p class="hint">The count stopped early. The replay sends all of them.</p>`
  return html`<section class="card" role="status"><h2>This replay sends ${least}${count}</h2>
${details}
${!whole && shortened}
${form(visit, { action: `/dashboard/webhooks/${id}/replay`, class: 'under' }, html`${hidden}${button}`)}
${table('Events by type', columns, Object.entries(types))}</section>`
}

function nothingCard (what: ReplayWish['what'], period: string): Html {
  const why = what === 'failed' ? 'No delivery of this period has failed' : 'There were no events of its types'
  return html`<section class="card" role="status"><h2>Nothing to replay</h2><p>${why}: ${period}.</p></section>`
}
