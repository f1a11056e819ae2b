import { isUser } from '#streams/session/decide.ts'
import { Html, html, type Value } from '#src/base/html.ts'
import { assetUrl, type AssetName } from './assets.ts'
import type { SeenSequences } from './live.ts'
import { ICON_SHEET, icon } from './icons.ts'
import { actionButton } from './parts.ts'
import type { MenuItem, Visit } from './visit.ts'

/** No evaluated code and no inline styles: the content policy would refuse both. No page in the browser's storage. */
const HTMX = JSON.stringify({
  allowEval: false,
  allowScriptTags: false,
  includeIndicatorStyles: false,
  selfRequestsOnly: true,
  historyEnabled: false,
  scrollBehavior: 'auto',
  timeout: 30_000
})

/** Parts of the dashboard that all installations have. */
export const MENU: Array<[section: MenuItem, path: string, text: string, drawing: string]> = [
  ['emails', '/emails', 'Activity', 'activity'],
  ['overview', '/overview', 'Overview', 'layout-dashboard'],
  ['webhooks', '/webhooks', 'Webhooks', 'webhook'],
  ['templates', '/templates', 'Templates', 'file-text'],
  ['domains', '/domains', 'Domains', 'globe'],
  ['keys', '/keys', 'Keys', 'key-round'],
  ['suppressions', '/suppressions', 'Suppressions', 'ban'],
  ['people', '/people', 'People', 'users'],
  ['audit', '/audit', 'Audit', 'scroll-text'],
  ['operations', '/operations', 'Operations', 'server-cog']
]

export interface PageFrame {
  title: string
  section: MenuItem | null
  notice: string | null
  /** Beside what every page loads. */
  assets: AssetName[]
  /** The menu has Mailbox. */
  hasMailbox: boolean
  /** How far the log was when the page was read. */
  seen: SeenSequences
  /** It takes the whole width of the window. */
  isWide: boolean
}

/** A page for somebody who is signed in. */
export function pageFor (
  visit: Visit,
  { title, section, notice, assets, hasMailbox, seen, isWide }: PageFrame,
  body: Html
): Html {
  const items = [...MENU, ...(hasMailbox ? [['mailbox', '/mailbox', 'Mailbox', 'inbox'] as const] : [])]
    .filter(([, path]) => visit.may('GET', `/dashboard${path}`))
  const links = items.map(([name, path, text, drawing]) =>
    html`<li><a href="/dashboard${path}"${name === section && html` aria-current="page"`}>${
      icon(drawing)
    }${text}</a></li>`
  )
  return documentOf(
    title,
    html` data-live="/dashboard/live?${
      new URLSearchParams(
        Object.entries(seen).map(([topic, seq]): [string, string] => [topic, String(seq)])
      ).toString()
    }"`,
    html`
<a class="skip" href="#main">Skip to content</a>
<header class="side">
<a class="brand" href="/dashboard"><img src="${assetUrl('icon.svg')}" alt="" width="22" height="22"> Jetpost</a>
<button type="button" class="quiet menu" data-toggle="menu" aria-expanded="false" aria-controls="menu">Menu</button>
<div id="menu"><a class="button finding" href="/dashboard/find" data-palette>${icon('search')}Find… <kbd>⌘K</kbd></a>
<nav aria-label="Main"><ul>${links}</ul></nav>
<details class="who"><summary><span class="initial" aria-hidden="true">${
      visit.account.name.slice(0, 1)
    }</span><span><span title="${visit.account.id}">${visit.account.name}</span>
<span class="hint">${visit.principal.name}</span></span></summary><p><a href="/dashboard/sessions">${
      isUser(visit.principal) ? 'Your sign-in' : 'Sessions'
    }</a></p>${actionButton(visit, 'Sign out', { action: '/dashboard/sign-out', class: 'bare' })}</details></div>
</header>
<main id="main" tabindex="-1"${isWide && html` class="whole"`}>
<p id="stale" class="box warn" role="status" hidden>This page cannot refresh and may be out of date.</p>
${notice !== null && html`<p class="box good" role="status">${notice}</p>`}
${body}
</main>
${PALETTE}`,
    [...assets, 'palette.css', 'palette.js']
  )
}

const PALETTE = html`<dialog id="palette" class="palette" aria-label="Find and do"><input role="combobox"
 aria-label="Find and do" aria-controls="found" aria-expanded="true" aria-autocomplete="list" autocomplete="off"
 spellcheck="false" maxlength="200" placeholder="Find a page, an email, an address, an id…" autofocus>
<div id="found" role="listbox" aria-label="Results"></div>
<p class="hint"><kbd>↑</kbd> <kbd>↓</kbd> choose · <kbd>Enter</kbd> open · <kbd>?</kbd> all keys</p></dialog>`

/** A page for people who are not signed in. */
export function plainPage (title: string, body: Value, assets: AssetName[] = []): Html {
  return documentOf(
    title,
    null,
    html`<main id="main" class="alone"><p class="brand"><img src="${
      assetUrl('icon.svg')
    }" alt="" width="28" height="28"> Jetpost</p>${body}</main>`,
    assets
  )
}

/** For a browser that followed a link of another site, and so sent no cookies: it sends them with a request from here.
 */
export function reloadFromHere (url: string): Html {
  return html`<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta http-equiv="refresh" content="0;url=${url}"><title>Jetpost</title></head><body></body></html>`
}

function documentOf (title: string, marks: Html | null, body: Html, assets: AssetName[] = []): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="htmx-config" content="${HTMX}">
<title>${title} · Jetpost</title>
<link rel="icon" href="${assetUrl('icon.svg')}">
<link rel="preload" href="${assetUrl('inter.woff2')}" as="font" type="font/woff2" crossorigin>
<link rel="stylesheet" href="${assetUrl('style.css')}">
<script defer src="${assetUrl('htmx.js')}"></script>
<script defer src="${assetUrl('idiomorph.js')}"></script>
<script defer src="${assetUrl('app.js')}"></script>${assets.map(loaded)}
</head>
<body hx-ext="morph"${marks}>${ICON_SHEET}${body}
</body>
</html>
`
}

function loaded (name: AssetName): Html {
  return name.endsWith('.css')
    ? html`<link rel="stylesheet" href="${assetUrl(name)}">`
    : html`<script defer src="${assetUrl(name)}"></script>`
}
