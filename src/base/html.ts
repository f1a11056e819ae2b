/** Text that is HTML already; everything else is escaped on its way in. */
export class Html {
  readonly text: string
  constructor (text: string) {
    this.text = text
  }
}

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** html`<p>${anything}</p>`: values are escaped, unless they are Html or lists of it. */
export function html (strings: TemplateStringsArray, ...values: Array<string | number | Html | Html[]>): Html {
  return new Html(strings.reduce((text, piece, i) => text + embed(values[i - 1]!) + piece))
}

function embed (value: string | number | Html | Html[]): string {
  if (value instanceof Html) return value.text
  if (Array.isArray(value)) return value.map(part => part.text).join('')
  return String(value).replaceAll(/[&<>"']/g, char => ESCAPES[char]!)
}
