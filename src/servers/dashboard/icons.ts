import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Html, html } from '#src/base/html.ts'

/** Drawings by name, once a page: each use refers to its drawing. */
export const ICON_SHEET = new Html(
  readFileSync(join(import.meta.dirname, 'assets', 'icons.svg'), 'utf8').replaceAll(/<!--.*?-->|\n/g, '')
    .replace('<svg ', '<svg class="unseen" aria-hidden="true" ')
)

/** An icon beside a text that says the same. `title` = it stands alone: then its name, also for screen readers. */
export function icon (name: string, title?: string): Html {
  const use = html`<use href="#i-${name}"/>`
  return title === undefined
    ? html`<svg class="icon" aria-hidden="true">${use}</svg>`
    : html`<svg class="icon" role="img" aria-label="${title}"><title>${title}</title>${use}</svg>`
}
