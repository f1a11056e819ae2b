/** What the API calls a field, as forms call it; the others are called what their name says. */
const LABELS: Record<string, string> = {
  q: 'Search',
  body: 'The text',
  html: 'HTML',
  url: 'URL',
  cc: 'Cc',
  bcc: 'Bcc',
  reply_to: 'Reply-To',
  template_id: 'Template',
  scheduled_at: 'Send at',
  expires_at: 'Expires',
  start_at: 'Send events since',
  concurrency: 'Concurrent requests',
  max_events: 'Events per request',
  max_wait_ms: 'Longest wait',
  on_doubt: 'If in doubt',
  created_after: 'Created after',
  created_before: 'Created before',
  headers: 'Header',
  variables: 'Variable'
}
/** Words for programs, and those for people. */
const WORDS: Array<[RegExp, string]> = [
  [/\ba time with an offset, like [\dT:-]+Z/g, 'a time in UTC, such as 2026-11-21T12:00'],
  [/, or (null\b|\["full"\])/g, ''],
  [/\ba next_cursor of this list\b/g, 'a link of this list'],
  [/\bhtml, text or template_id\b/gi, 'HTML, text or a template'],
  [/\bmust be a string\b/g, 'must be text'],
  [/\bmust be (an object|a JSON object)\b/g, 'must have names and values'],
  [/\ba string, a number\b/g, 'a text, a number'],
  [/\bthe id of a template\b/g, 'a template that exists'],
  [/\bUnknown (field|query parameter) /g, 'This form does not have the field '],
  [/\bvariables\.(?=\w)/g, ''],
  [/`/g, '']
]

/** A fault that the API found in a field, for somebody who sees a form and not a request. */
export function formText ({ field, message }: { field: string, message: string }): string {
  const parts = field.split('.')
  // Of an entry's own fields the API names the last part alone.
  const named = [field, parts.slice(1).join('.'), parts.at(-1)!].find(name =>
    name !== '' && message.startsWith(`${name} `)
  )
  // A whole sentence may begin with the names of several fields.
  const isList = message.startsWith('html, text or ')
  const text = named === undefined || isList
    ? plainly(message)
    : `${labelOf(field)}${plainly(message.slice(named.length))}`
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function plainly (text: string): string {
  const said = WORDS.reduce((rest, [word, plain]) => rest.replace(word, plain), text)
  return said.replaceAll(/\b[a-z]+(?:_[a-z]+)+\b/g, name => lowered(LABELS[name] ?? name.replaceAll('_', ' ')))
}

/** `to[1]` → `To (entry 2)`, `batch.max_events` → `Events per request`, `metadata.order` → `Metadata order`. */
function labelOf (field: string): string {
  const [, first = '', index, rest = ''] = /^([^.[]+)(?:\[(\d+)\])?\.?(.*)$/s.exec(field) ?? []
  const entry = index === undefined ? '' : ` (entry ${Number(index) + 1})`
  if (rest === '') return `${titled(first)}${entry}`
  if (LABELS[rest] !== undefined) return LABELS[rest]
  // Names that somebody has chosen stay as they are.
  const isChosen = ['headers', 'metadata', 'variables'].includes(first)
  return `${titled(first)}${entry} ${isChosen ? rest : inner(rest)}`
}

/** `sender_domains[0]` → `sender domains (entry 1)`. */
function inner (rest: string): string {
  return rest.replaceAll('_', ' ').replaceAll(/\[(\d+)\]/g, (_all, index) => ` (entry ${Number(index) + 1})`)
    .replaceAll('.', ' ')
}

function titled (name: string): string {
  const text = LABELS[name] ?? name.replaceAll('_', ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Amid a sentence; an abbreviation stays. */
function lowered (label: string): string {
  return /^[A-Z][a-z]/.test(label) ? label.charAt(0).toLowerCase() + label.slice(1) : label
}
