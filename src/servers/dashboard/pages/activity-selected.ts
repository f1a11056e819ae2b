import type { EmailRecord } from '#projections/emails/records.ts'
import { deliveriesAbout, type DeliveryRecord } from '#projections/deliveries/queries.ts'
import { html, type Html } from '#src/base/html.ts'
import { JetpostError } from '#src/client/client.ts'
import type { Email } from '#src/client/types.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { icon } from '../icons.ts'
import { imagesNote } from '../mail-frame.ts'
import { badge, codeBlock, copyable, duration, exact, number, withQuery } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { deliveryAt, maySee, pastOfEmail } from './activity-past.ts'
import { nameOf } from './activity-list.ts'
import { actionsFor } from './email-actions.ts'
import { contentOf, emailFrame, goneBox, NO_TEXT, rawOf, shortened } from './email-content.ts'
import { tagsOf, titleOf } from './email-format.ts'
import { timeline } from './email-timeline.ts'
import { isFine, responseText } from './webhook-format.ts'
import { readDeliveries } from './webhook-queries.ts'

/** Deliveries of the email that are shown; its page has all of them. */
const HOOKS_MAX = 10
const READ_MAX = 30

/** An email beside the list: how it looks, what became of it, and what its webhooks were told. */
export async function selectedEmail (
  visit: Visit,
  context: DashboardContext,
  id: string,
  atMs: number | null
): Promise<Html | null> {
  const about = deliveriesAbout({ account: visit.account.id, emails: [id], limit: READ_MAX })
  const [email, read] = await Promise.all([
    emailAt(visit, context, id, atMs),
    maySee(visit, 'deliveries') ? readDeliveries(context, visit.account.id, about) : null
  ])
  if (email === null) return null
  const deliveries = (read ?? []).flatMap(one => deliveryAt(one, atMs ?? Infinity) ?? [])
  const content = maySee(visit, 'content') ? await preview(visit, context, id) : null
  return html`<section id="selected" class="selected" aria-labelledby="selected-title" data-email="${id}">
${headOf(visit, context, email, atMs)}${strip(email)}${content}
<details id="selected-timeline" class="fold"><summary>Timeline <span class="count">${
    number(email.timeline.length)
  }</span></summary>${timeline(visit, { email, n: null, momentOf: () => undefined })}</details>
${hooks(deliveries)}</section>`
}

/** null = the account has none, or it was not there yet. */
async function emailAt (
  visit: Visit,
  context: DashboardContext,
  id: string,
  atMs: number | null
): Promise<Email | null> {
  if (atMs !== null) {
    const past = await pastOfEmail(visit, context, id)
    return past === null || past.createdMs > atMs ? null : past.at(atMs) as EmailRecord as Email
  }
  return await visit.api.emails.get(id).catch(error => {
    if (error instanceof JetpostError && error.status === 404) return null
    throw error
  })
}

function headOf (
  visit: Visit,
  { services: { settings: { contentRetentionMs } } }: DashboardContext,
  email: Email,
  atMs: number | null
): Html {
  const { id, from, to, cc, bcc, status, test, tags } = email
  const [first = '', ...others] = [...to, ...cc, ...bcc].map(nameOf).map(mailboxOf)
  const link =
    html`<a class="button round" href="/dashboard/emails/${id}" aria-label="Open the email" title="Open the email">${
      icon('external-link')
    }</a>`
  return html`<header><div><p class="above">${badge(status)}${
    test && html` ${badge('test')}`
  }</p><h2 id="selected-title">${titleOf(email)}</h2>
<p class="parties">${mailboxOf(nameOf(from))} <span class="soft">to</span> ${first}${
    others.length > 0 && html` <span class="soft">and ${others.length} more</span>`
  }</p><p class="above">${copyable(id, 'Copy the id')} ${tagsOf(tags)}</p></div><div class="actions">${
    atMs === null && actionsFor(visit, email, contentRetentionMs)
  }${link}</div></header>`
}

function mailboxOf ({ name, address }: ReturnType<typeof nameOf>): Html {
  return html`${name}${address !== null && html` <span class="soft">${address}</span>`}`
}

type Stage = [text: string, at: string | null, tone: 'good' | 'bad' | 'warn' | 'busy']

/** How far the email has come, and how long each stage took; of several recipients the first one counts. */
function strip ({ created_at: created, recipients, timeline: facts }: Email): Html {
  const first = (pick: (recipient: Email['recipients'][number]) => string | null) =>
    recipients.flatMap(recipient => pick(recipient) ?? []).sort()[0] ?? null
  const sent = facts.find(({ type }) => type === 'email.attempted')?.time ?? null
  const bad: Stage[] = [
    ['Bounced', first(one => one.bounced_at), 'bad'],
    ['Failed', first(one => one.failed_at), 'bad'],
    ['Suppressed', first(one => one.suppressed_at), 'warn'],
    ['Canceled', first(one => one.canceled_at), 'warn'],
    ['Deferred', first(one => one.deferred_at), 'warn']
  ]
  const delivered = first(one => one.delivered_at)
  const ended = bad.find(([, at]) => at !== null)
  const isOver = delivered === null && ended !== undefined
  const stages: Stage[] = [
    ['Accepted', created, 'good'],
    // A server may refuse it before it is sent.
    ...(isOver && sent === null ? [] : [['Sent', sent, 'good'] satisfies Stage]),
    isOver ? ended : ['Delivered', delivered, 'good'],
    ['Opened', first(one => one.opened_at), 'busy'],
    ['Clicked', first(one => one.clicked_at), 'busy']
  ]
  let before = created
  const items = stages.map(([text, at, tone]) => {
    const sinceMs = at === null ? 0 : Math.max(0, Date.parse(at) - Date.parse(before))
    before = at ?? before
    const after = at === null || text === 'Accepted' ? null : html`<span class="gap">+${duration(sinceMs)}</span>`
    return html`<li class="${at === null ? 'ahead' : tone}"${at !== null && html` title="${exact(at)}"`}>
<span>${text}</span>${after}</li>`
  })
  return html`<ol class="strip" aria-label="How far it has come">${items}</ol>`
}

type Part = 'html' | 'text' | 'source'

const PARTS: Array<[part: Part, text: string]> = [['html', 'Preview'], ['text', 'Text'], ['source', 'Source']]

/** The email as its reader gets it; as a link each, so that they work without a script. */
async function preview (visit: Visit, context: DashboardContext, id: string): Promise<Html> {
  const [part] = PARTS.find(([name]) => name === visit.query.get('part')) ?? PARTS[0]!
  const isNarrow = visit.query.get('width') === 'phone'
  const url = (changes: Record<string, string | null>) => withQuery(visit, { email: id, ...changes })
  const links = PARTS.map(([name, text]) =>
    html`<li><a href="${url({ part: name === 'html' ? null : name })}"${
      name === part && html` aria-current="true"`
    }>${text}</a></li>`
  )
  const width = (name: string | null, title: string, drawing: string, isCurrent: boolean) =>
    html`<li><a href="${url({ width: name })}" aria-label="${title}" title="${title}"${
      isCurrent && html` aria-current="true"`
    }>${icon(drawing)}</a></li>`
  const widths = part === 'html' &&
    html`<ul class="segments">${width(null, 'Desktop width', 'monitor', !isNarrow)}${
      width('phone', 'Phone width', 'smartphone', isNarrow)
    }</ul>`
  return html`<div class="preview-bar"><ul class="segments">${links}</ul>${widths}</div>
<div class="shown ${isNarrow && 'narrow'}">${await partOf(visit, context, id, part)}</div>`
}

async function partOf (visit: Visit, context: DashboardContext, id: string, part: Part): Promise<Html> {
  if (part === 'source') {
    const raw = await rawOf(visit, id)
    return raw === null ? goneBox(context) : plain(shortened(new TextDecoder().decode(raw)), 'The source')
  }
  const content = await contentOf(visit, id)
  if (content === null) return goneBox(context)
  if (part === 'html' && content.html !== null) {
    const isRemote = /\bsrc\s*=\s*["']?\s*https?:|url\(/i.test(content.html)
    const note = isRemote && html`<p class="hint blocked">${icon('image')}${imagesNote(visit)}</p>`
    return html`${note}${emailFrame(visit, id)}`
  }
  return content.text === null
    ? html`<p class="hint">${NO_TEXT}</p>`
    : plain(shortened(content.text), 'The text part')
}

function plain (text: string, label: string): Html {
  return html`<pre tabindex="0" role="region" aria-label="${label}">${text}</pre>`
}

/** What its webhooks were sent, and what they answered. */
function hooks (deliveries: DeliveryRecord[]): Html | null {
  if (deliveries.length === 0) return null
  const shown = deliveries.toReversed().slice(0, HOOKS_MAX)
  return html`<section class="hooks" aria-labelledby="hooks-title"><h3 id="hooks-title">Webhooks <span class="count">${
    number(deliveries.length)
  }</span></h3>${shown.map(hookOf)}</section>`
}

function hookOf ({ id, events, state, tries, attempts }: DeliveryRecord): Html {
  const last = tries.at(-1)
  const name = html`<strong>${events.length === 1 ? events[0]!.type : `Batch of ${events.length} events`}</strong>`
  const link = html`<a class="button quiet" href="/dashboard/webhooks/deliveries/${id}">Open the delivery</a>`
  if (last === undefined) {
    return html`<div class="hook"><p>${badge(state)} ${name} <span class="hint">no request yet</span></p></div>`
  }
  const { status, url, headers, response, duration_ms: ms } = last
  const sent = [`POST ${url}`, ...Object.entries(headers).map(([header, value]) => `${header}: ${value}`)].join('\n')
  return html`<details class="hook" id="hook-${id}"><summary>${
    icon(isFine(last) ? 'circle-check' : 'circle-x')
  }${name}<span class="soft">${new URL(url).host}</span><span class="answer ${isFine(last) ? 'good' : 'bad'}">${
    responseText(last).slice(0, 60)
  }</span><span class="soft">${number(ms)} ms</span></summary>
<h4>Request</h4>${codeBlock(sent, 'Request')}<h4>Response</h4>${
    response === ''
      ? html`<p class="hint">${status === null ? 'No response.' : 'Empty body.'}</p>`
      : codeBlock(response, 'Response')
  }<p class="hint">${number(attempts)} ${attempts === 1 ? 'attempt' : 'attempts'} ${link}</p></details>`
}
