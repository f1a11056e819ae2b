import { patternOf, readSections, type PhraseSection } from './sections.ts'

/** How a mail server's text is known, for those that write no report part, or a poor one: by its `opening`. The rest is
 *  only there where reading the lines around an address would go wrong. */
export interface Form {
  name: string
  opening: RegExp
  /** Group 1 = an address, or a text with one in it; `gm`. */
  recipient?: RegExp
  /** Group 1 = the reason, when it stands elsewhere than around the address. */
  reason?: RegExp
  /** Words that others use, too: parcels come back as well. */
  common?: true
}

/** From what each program is documented or known to send. Their order makes no difference: a text that shows several is
 *  read by all of them. */
export const FORMS: readonly Form[] = readForms()

/** Sections are `name opening|recipient|reason [flags] [common]`, the opening first. */
function readForms (): Form[] {
  const forms: Form[] = []
  for (const section of readSections('forms.txt')) {
    const [name, part, ...options] = section.head
    const pattern = patternOf(section, options.find(option => option !== 'common'))
    const form = forms.at(-1)
    if (part === 'opening') {
      forms.push({ name: name!, opening: pattern, ...(options.includes('common') ? { common: true } : {}) })
    } else if (form?.name === name && (part === 'recipient' || part === 'reason')) form![part] = pattern
    else {throw new Error(
        `forms.txt: must be opening, recipient or reason, the opening first: ${section.head.join(' ')}`
      )}
  }
  return forms
}

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
