import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A head line and the lines below it, in words and as they are. */
export interface PhraseSection {
  head: string[]
  lines: string[]
}

const NAME = /\{([a-z]+)\}/g
const DEFINITION = /^\{([a-z]+)\} = (.+)$/
/** What a deeper line holds belongs to the line before it. */
const CONTINUES = /\n {6}(?=\S)/g

/** Reads a file of `phrases/`; see README.md, "Phrases". Throws when it does not follow the form. */
export function readSections (file: string, names?: Map<string, string>): PhraseSection[] {
  return parseSections(file, readFileSync(join(import.meta.dirname, 'phrases', file), 'utf8'), names)
}

/** `names` = what `{name}` stands for; those that the text defines are added. Throws when a line does not follow the
 *  form. Pure otherwise. */
export function parseSections (file: string, text: string, names = new Map<string, string>()): PhraseSection[] {
  const sections: PhraseSection[] = []
  const fault = (line: string, rule: string) => new Error(`${file}: ${rule}: ${line}`)
  const expand = (line: string) =>
    line.includes('{') ?
      line.replaceAll(NAME, (_, name: string) => {
        const meaning = names.get(name)
        if (meaning === undefined) throw fault(line, `{${name}} must be defined before it is used`)
        return meaning
      }) :
      line
  for (const line of text.replaceAll(CONTINUES, '').split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    if (line.endsWith(' ')) throw fault(line, 'a line must not end in a blank')
    const definition = line.startsWith('{') ? DEFINITION.exec(line) : null
    if (definition !== null) names.set(definition[1]!, expand(definition[2]!))
    else if (!line.startsWith(' ')) sections.push({ head: line.split(' '), lines: [] })
    else if (!line.startsWith('  ') || line[2] === ' ') throw fault(line, 'a line must be indented by 0, 2 or 6 blanks')
    else if (sections.length === 0) throw fault(line, 'a head line must come first')
    else sections.at(-1)!.lines.push(expand(line.slice(2)))
  }
  const empty = sections.find(({ lines }) => lines.length === 0)
  if (empty !== undefined) throw fault(empty.head.join(' '), 'a head line must be followed by phrases')
  return sections
}

/** One pattern of all lines. */
export function patternOf ({ lines }: PhraseSection, flags = ''): RegExp {
  return new RegExp(lines.join('|'), flags)
}
