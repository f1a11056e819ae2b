import { patternOf, readSections, type PhraseSection } from './sections.ts'

const SECTIONS = new Map(readSections('signs.txt').map(section => [section.head[0]!, section]))

function section (name: string): PhraseSection {
  const found = SECTIONS.get(name)
  if (found === undefined) throw new Error(`signs.txt: must have a section ${name}`)
  return found
}

function pattern (name: string): RegExp {
  return patternOf(section(name), section(name).head[1])
}

/** Its alternatives, as a part of a pattern. */
function anyOf (name: string): string {
  return `(?:${section(name).lines.join('|')})`
}

/** Lines that name a sender: local parts and display names alike. */
export const DAEMONS = pattern('daemons')

/** How the subjects of reports begin, and what they say further on. */
export const SUBJECTS = new RegExp(`^(?:\\[[^\\]]{1,30}\\])?\\W{0,6}${anyOf('subjects')}`, 'iu')
export const SUBJECTS_WITHIN = pattern('subjects-within')

/** Of reports that announce no end, only a wait. */
export const DELAYS = pattern('delays')

/** Of reports that all is well. */
export const SUCCESS_SUBJECTS = pattern('success-subjects')
export const SUCCESS = pattern('success')

/** Subjects of mail from people who want no more. */
export const UNSUBSCRIBE = new RegExp(
  `^\\W{0,3}(?:re: ?)?(?:${anyOf('unsubscribe')}(?=\\P{L}|$)|(?:remove|stop|baja|cancelar|cancellami)\\W*$)`,
  'iu'
)

/** Subjects of answers that a machine wrote. */
export const AUTO_REPLIES = new RegExp(
  `^\\W{0,4}(?:(?:re|aw|sv|antw|ré|rif|res|ynt|vs|回复|回覆|答复)[:：] ?)?\\W{0,4}${anyOf('automatic')}`,
  'iu'
)

/** `Somebody is away`, as Notes and its kin write it. */
export const SOMEBODY_AWAY = new RegExp(
  '^.{2,80} (?:is|ist|est|est[áà]|è|är|er|on|jest|is momenteel) (?:currently |derzeit |zur zeit |momentan )?' +
    anyOf('away'),
  'iu'
)

/** Lines after which the returned message begins. */
export const COPIES = new RegExp(`^[ \\t]{0,20}[-=_*|#> ]{0,60}${anyOf('copies')}$`, 'iu')
