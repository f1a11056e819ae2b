import { parseAddress } from '#streams/address.ts'
import { html, type Html } from '#src/base/html.ts'
import { ifAvailable } from '../error-pages.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { pageById } from '../find-by-id.ts'
import { icon } from '../icons.ts'
import { MENU } from '../layout.ts'
import { badge, field, heading } from '../parts.ts'
import type { Pages, Visit } from '../visit.ts'
import { shownAddress, titleOf } from './email-format.ts'

/** What somebody types is no longer. */
const CHARS_MAX = 200
/** Of each kind of result. */
const EACH_MAX = 6
/** A substring of fewer characters is in nearly every email. */
const SEARCHED_CHARS_MIN = 3

const ACTIONS: Array<[text: string, path: string, drawing: string]> = [
  ['Send an email', '/emails/new', 'send'],
  ['Create endpoint', '/webhooks/new', 'plus'],
  ['Create key', '/keys/new', 'plus'],
  ['Create template', '/templates/new', 'plus'],
  ['Add domain', '/domains', 'plus'],
  ['Suppress an address', '/suppressions/new', 'ban'],
  ['Erase a person', '/erasures/new', 'user-round-x'],
  ['All webhook deliveries', '/webhooks/deliveries', 'webhook'],
  ['Sessions', '/sessions', 'users']
]

const KEYS: Array<[keys: string, text: string]> = [
  ['⌘K or Ctrl K', 'Find and do'],
  ['/', 'Search on this page'],
  ['j k', 'Next and previous email'],
  ['Enter', 'Open the email'],
  ['← →', 'On the time track: the event before and after'],
  ['Shift ← →', 'On the time track: a range to replay'],
  ['Space', 'On the time track: play'],
  ['g e', 'Go to Activity'],
  ['g o', 'Go to Overview'],
  ['g w', 'Go to Webhooks'],
  ['g d', 'Go to Domains']
]

interface Found {
  group: string
  text: string
  href: string
  drawing: string
  more?: Html | string
}

/** Pages, actions, whatever has that id, emails, endpoints and domains: as a page, and as the options of the palette
 *  (`part`). */
export function palettePages (pages: Pages, context: DashboardContext): void {
  pages.get('/find', null, async visit => {
    const text = (visit.query.get('q') ?? '').trim().slice(0, CHARS_MAX)
    const found = text === '?' ? [] : await search(visit, context, text)
    if (visit.query.get('part') === 'options') {
      const body = text === '?' ? keysHelp() : options(found, text)
      return { send: reply => reply.type('text/html; charset=utf-8').send(body.text) }
    }
    return { title: 'Find', section: null, page: findPage(found, text) }
  })
}

function findPage (found: Found[], text: string): Html {
  const lines = found.map(({ href, drawing, text: name, group, more }) =>
    html`<li><a href="${href}">${icon(drawing)} ${name}</a> <span class="soft">${group}</span> ${more ?? null}</li>`
  )
  return html`${heading('Find')}<form method="get" action="/dashboard/find" class="filters"><div class="grow field">${
    field({ name: 'q', label: 'Find anything', type: 'search', value: text })
  }</div><button class="primary">Find</button></form>
<section class="card">${lines.length === 0 ? nothing(text) : html`<ul class="plain">${lines}</ul>`}</section>`
}

function nothing (text: string): Html {
  return html`<p class="hint">Nothing found for “${text}”.</p>`
}

async function search (visit: Visit, context: DashboardContext, text: string): Promise<Found[]> {
  const [byId, mails] = await Promise.all([idFound(visit, context, text), mailsFound(visit, text)])
  const places = MENU.map(([, path, name, drawing]) => ({ group: 'Go to', text: name, href: path, drawing }))
  const actions = ACTIONS.map(([name, href, drawing]) => ({ group: 'Do', text: name, href, drawing }))
  const known = [...places, ...actions].map(one => ({ ...one, href: `/dashboard${one.href}` }))
    .filter(one => has(one.text, text) && visit.may('GET', one.href))
  return [...byId, ...known, ...thingsFound(visit, context, text), ...mails]
}

function has (text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase())
}

async function idFound (visit: Visit, context: DashboardContext, text: string): Promise<Found[]> {
  const href = await ifAvailable(pageById(visit, context, text))
  return href === null ? [] : [{ group: 'By id', text, href, drawing: 'external-link' }]
}

async function mailsFound (visit: Visit, text: string): Promise<Found[]> {
  if (text.length < SEARCHED_CHARS_MIN || !visit.may('GET', '/dashboard/emails')) return []
  const address = parseAddress(text) === null ? [] : [{
    group: 'Emails',
    text: `Emails to ${text}`,
    href: `/dashboard/emails?to=${encodeURIComponent(text)}`,
    drawing: 'mail'
  }]
  const found = await ifAvailable(visit.api.emails.page({ q: text, limit: EACH_MAX }))
  const emails = (found?.data ?? []).map(email => ({
    group: 'Emails',
    text: titleOf(email),
    href: `/dashboard/emails/${email.id}`,
    drawing: 'mail',
    more: html`<span class="soft">${shownAddress(email.to[0] ?? '')}</span> ${badge(email.status)}`
  }))
  return [...address, ...emails]
}

/** Endpoints and domains are in memory. */
function thingsFound (visit: Visit, { services: { directory: { now } } }: DashboardContext, text: string): Found[] {
  if (text === '') return []
  const own = <T extends { account: string }>(things: Map<string, T>): T[] =>
    [...things.values()].filter(({ account }) => account === visit.account.id)
  const endpoints = own(now.webhooks).filter(({ url }) => has(url, text)).slice(0, EACH_MAX).map(({ id, url }) => ({
    group: 'Endpoints',
    text: url,
    href: `/dashboard/webhooks/${id}`,
    drawing: 'webhook'
  }))
  const domains = own(now.domains).filter(({ name }) => has(name, text)).slice(0, EACH_MAX).map(({ id, name }) => ({
    group: 'Domains',
    text: name,
    href: `/dashboard/domains/${id}`,
    drawing: 'globe'
  }))
  return [...endpoints, ...domains].filter(({ href }) => visit.may('GET', href))
}

function options (found: Found[], text: string): Html {
  if (found.length === 0) return nothing(text)
  const groups = [...new Set(found.map(({ group }) => group))]
  let place = 0
  return html`${
    groups.map(group =>
      html`<div role="group" aria-label="${group}"><p class="hint" aria-hidden="true">${group}</p>${
        found.filter(one => one.group === group).map(one =>
          html`<a role="option" tabindex="-1" id="option-${place++}" href="${one.href}" aria-selected="false">${
            icon(one.drawing)
          }<span>${one.text}</span>${one.more ?? null}</a>`
        )
      }</div>`
    )
  }`
}

function keysHelp (): Html {
  const lines = KEYS.map(([keys, text]) =>
    html`<div role="option" tabindex="-1" aria-selected="false"><kbd>${keys}</kbd><span>${text}</span></div>`
  )
  return html`<div role="group" aria-label="Keys"><p class="hint" aria-hidden="true">Keys</p>${lines}</div>`
}
