import { html, type Html, type Value } from '#src/base/html.ts'

/** Something that needs attention: what, why, and where to fix it. */
export interface Concern {
  tone: 'bad' | 'warn'
  what: string
  why: Value
  to: string
  /** The link's text. */
  step: string
}

/** Shown at once; the others are folded away. */
const SHOWN_MAX = 3

export function worstFirst (concerns: Concern[]): Concern[] {
  return [...concerns.filter(({ tone }) => tone === 'bad'), ...concerns.filter(({ tone }) => tone === 'warn')]
}

/** `here` = the path of the page, to which no link leads. */
export function concernsCard (concerns: Concern[], here: string): Html {
  if (concerns.length === 0) {
    return html`<section class="card"><h2>Needs attention</h2><p class="hint">No problems found.</p></section>`
  }
  const lines = concerns.map(({ tone, what, why, to, step }) => {
    const link = to !== here && html`<a class="button" href="${to}">${step}<span class="unseen">: ${what}</span></a>`
    return html`<li class="${tone}"><div><strong>${what}</strong><p>${why}</p></div>${link}</li>`
  })
  const more = lines.length > SHOWN_MAX &&
    html`<details id="more-concerns"><summary>${lines.length - SHOWN_MAX} more</summary>
<ul class="concerns">${lines.slice(SHOWN_MAX)}</ul></details>`
  return html`<section class="card"><h2>Needs attention</h2><ul class="concerns">${
    lines.slice(0, SHOWN_MAX)
  }</ul>${more}</section>`
}
