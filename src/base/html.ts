/** Text that is HTML already; everything else is escaped on its way in. */
export class Html {
  readonly text: string
  constructor (text: string) {
    this.text = text
  }
}

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** What a template takes: null and false are nothing, so that `${isOpen && html`…`}` can be said. */
export type Value = string | number | Html | Html[] | null | false

/** html`<p>${anything}</p>`: values are escaped, unless they are Html or lists of it. */
export function html (strings: TemplateStringsArray, ...values: Value[]): Html {
  return new Html(strings.reduce((text, piece, i) => text + embed(values[i - 1]!) + piece))
}

function embed (value: Value): string {
  if (value === null || value === false) return ''
  if (value instanceof Html) return value.text
  if (Array.isArray(value)) return value.map(part => part.text).join('')
  return String(value).replaceAll(/[&<>"']/g, char => ESCAPES[char]!)
}
