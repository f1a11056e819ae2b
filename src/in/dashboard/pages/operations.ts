import { html, type Html } from '#src/base/html.ts'
import type { ConsumerReport, Operations, ProjectionReport, StreamReport } from '../operations.ts'
import { badge, counted, facts, refreshed, table, time } from '../parts.ts'
import type { DashboardRooms } from '../rooms.ts'
import type { Answer, Pages, Visit } from '../visit.ts'
import { accountsPages } from './operations-accounts.ts'
import { mailPages } from './operations-mail.ts'
import { parkedPages } from './operations-parked.ts'
import { operationsPage, operatorsOnly, spanText, tabName, type Tab } from './operations-parts.ts'
import { isBehind, projectionsPages } from './operations-projections.ts'
import { alarmsIn, reputationPages } from './operations-reputation.ts'
import { standingOf, streamsPages } from './operations-streams.ts'

/** How this installation runs, for who runs it. */
export function operationsPages (all: Pages, rooms: DashboardRooms): void {
  const pages = operatorsOnly(all)
  const { operations } = rooms
  pages.get('/operations', async visit => await statusPage(visit, operations))
  streamsPages(pages, rooms)
  projectionsPages(pages, rooms)
  parkedPages(pages, rooms)
  reputationPages(pages, rooms)
  accountsPages(pages, rooms)
  mailPages(pages, rooms)
}

const EVERY_S = 5

async function statusPage (visit: Visit, operations: Operations): Promise<Answer> {
  const { host, roles, version, sinceMs } = operations.process
  const [parts, others] = await Promise.all([operations.parts(), othersIn(operations)])
  const matters = [...parts.flatMap(({ name, reason }) => (reason === null ? [] : [matter('bad', `${name} is not ready: ${reason}.`)])), ...others]
  return operationsPage('', html`<div ${refreshed(visit, EVERY_S, 'status')}>
${mattersBox(matters)}
<section class="card"><h2>This process</h2>${facts([
  ['Host', html`<code>${host}</code>`],
  ['Roles', roles.join(', ')],
  ['Version', version],
  ['Started', time(new Date(sinceMs), visit.nowMs)]
])}</section>
<section class="card"><h2>Roles</h2>
<p class="hint">What this process does, as <code>/readyz</code> tells it. Where several processes share the work, each tells of its own.</p>
${table('Roles of this process', [
  { name: 'Role', cell: ({ name }) => html`<strong>${name}</strong>` },
  { name: 'State', cell: ({ reason }) => (reason === null ? badge('ready') : badge('not_ready')) },
  { name: 'What it does, or why it does not', kind: 'wide', cell: ({ name, reason }) => reason ?? html`<span class="hint">${meaningOf(name)}</span>` }
], parts)}</section></div>`)
}

/** What somebody should look at: a sentence, and where. */
interface Matter { text: string, at: Tab | null, tone: 'bad' | 'warn' }

const LAG_FACTS = 10_000
const LAG_S = 60

async function othersIn (operations: Operations): Promise<Matter[]> {
  const [streams, consumers, projections, reputation] = await Promise.all([operations.streams(), operations.consumers(), operations.projections(), operations.reputation()])
  const silences = new Set([...streams.troubles, ...consumers.troubles, ...projections.troubles, ...reputation.troubles])
  return [
    ...[...silences].map(text => matter('bad', text)),
    ...streams.value.flatMap(ofStream),
    ...consumers.value.flatMap(ofConsumer),
    ...projections.value.flatMap(ofProjection),
    ...reputation.value.flatMap(alarmsIn).map(text => matter('bad', text, '/reputation'))
  ]
}

function matter (tone: Matter['tone'], text: string, at: Tab | null = null): Matter {
  return { text, at, tone }
}

function ofStream ({ name, replicasBehind }: StreamReport): Matter[] {
  return replicasBehind.length === 0 ? [] : [matter('warn', `The stream ${name} has copies that are behind or away: ${replicasBehind.join(', ')}.`, '/streams')]
}

function ofConsumer (consumer: ConsumerReport): Matter[] {
  const { state, means } = standingOf(consumer)
  if (state === 'idle' || state === 'working') return []
  return [matter(state === 'nobody' ? 'bad' : 'warn', `${consumer.name}: ${means}`, '/streams')]
}

function ofProjection (projection: ProjectionReport): Matter[] {
  const { name, lag, view } = projection
  const isLate = isBehind(projection) && lag !== null && (lag.facts > LAG_FACTS || lag.seconds > LAG_S)
  const parked = view?.parked ?? 0
  return [
    ...(isLate ? [matter('warn', `The view ${name} is ${counted(lag.facts, 'fact')} behind the log, by ${spanText(lag.seconds * 1000)}.`, '/projections')] : []),
    ...(parked > 0 ? [matter('warn', `${counted(parked, 'fact')} could not be written into the view ${name}.`, '/parked')] : [])
  ]
}

function mattersBox (matters: Matter[]): Html {
  if (matters.length === 0) return html`<p class="box good">All is well: every role works, nothing waits for long, and nothing is parked.</p>`
  const line = ({ text, at, tone }: Matter): Html => {
    const link = at !== null && html` <a href="/dashboard/operations${at}">${tabName(at)}</a>`
    return html`<li>${badge(tone === 'bad' ? 'wrong' : 'watch', tone)} ${text}${link}</li>`
  }
  return html`<section class="card"><h2>Needs attention</h2><ul class="lines">${matters.map(line)}</ul></section>`
}

const MEANINGS: Record<string, string> = {
  nats: 'The log: everything that was asked for, and what became of it.',
  postgres: 'The views that lists, searches and figures are read from.',
  streams: 'Keeps the streams and consumers of the log as they should be.',
  directory: 'Knows accounts, keys, domains and webhooks, up to date with the log.',
  sender: 'Sends mail and records what servers answered.',
  webhooks: 'Calls webhook endpoints, and again when they fail.',
  reactions: 'Suppresses addresses after bounces and complaints.',
  records: 'Keeps a record of each email beside its outcomes, without its content.',
  scheduler: 'Sees to it that nothing accepted is forgotten, and clears away what is past its time.',
  'domain checks': 'Looks at the DNS of domains again and again.',
  usage: 'Closes the counts of months that are over.',
  erasures: 'Takes what is to be forgotten out of the log.',
  inbound: 'Reads mail that came back: bounces, complaints, unsubscriptions.'
}

function meaningOf (name: string): string {
  return name.startsWith('projection ') ? 'Writes what the log says into its view.' : MEANINGS[name] ?? ''
}
