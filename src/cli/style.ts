import { styleText } from 'node:util'

export type Style = 'bold' | 'cyan' | 'dim' | 'green' | 'magenta' | 'red' | 'yellow'

/** In colour where `stream` is a terminal that shows it: NO_COLOR and FORCE_COLOR are obeyed. */
export function paint (style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return text === '' ? '' : styleText(style, text, { stream })
}

/** A link under a text where `stream` is a terminal that shows colours, and so skips codes that it does not know; else
 *  the text alone. */
export function linked (text: string, url: string, stream: NodeJS.WriteStream): string {
  if (!stream.isTTY || !stream.hasColors()) return text
  return `\u001b]8;;${url}\u001b\\${text}\u001b]8;;\u001b\\`
}

const STATES: Array<[Style, string]> = [
  ['green', 'active completed current delivered enabled found ok published ready valid verified'],
  ['yellow', 'deferred failing paused pending queued retrying running scheduled sending unverified waiting'],
  ['red', 'bounced complained disabled failed invalid missing revoked wrong'],
  ['magenta', 'in_doubt partial ?'],
  ['dim', 'canceled none suppressed unset']
]
const STYLES = new Map(STATES.flatMap(([style, words]) => words.split(' ').map(word => [word, style] as const)))

/** A state in its colour; what follows its first word belongs to it: `disabled (gone)`. */
export function paintState (text: string): string {
  const style = STYLES.get(text.toLowerCase().split(' ', 1)[0]!)
  return style === undefined ? text : paint(style, text)
}

/** A fact's type in the colour of the state it leads to; `shown` = how it is written. */
export function paintType (type: string, shown: string): string {
  const style = STYLES.get(type.slice(type.indexOf('.') + 1))
  return style === undefined ? shown : paint(style, shown)
}

/** Columns of the terminal that `stream` is; Infinity where it is none, and nothing has to fit. */
export function columnsOf (stream: NodeJS.WriteStream): number {
  return stream.isTTY ? stream.columns || 80 : Infinity
}
