import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A head line and the lines below it, in words and as they are. */
export interface PhraseSection {
  head: string[]
  lines: string[]
}

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
    line.replaceAll(/\{([a-z]+)\}/g, (_, name: string) => {
      const meaning = names.get(name)
      if (meaning === undefined) throw fault(line, `{${name}} must be defined before it is used`)
      return meaning
    })
  // What a deeper line holds belongs to the line before it.
  for (const line of text.replaceAll(/\n {6}(?=\S)/g, '').split('\n')) {
    const definition = /^\{([a-z]+)\} = (.+)$/.exec(line)
    if (/\s$/.test(line)) throw fault(line, 'a line must not end in a blank')
    if (line === '' || line.startsWith('#')) continue
    if (definition !== null) names.set(definition[1]!, expand(definition[2]!))
    else if (/^\S/.test(line)) sections.push({ head: line.split(' '), lines: [] })
    else if (!/^ {2}\S/.test(line)) throw fault(line, 'a line must be indented by 0, 2 or 6 blanks')
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
