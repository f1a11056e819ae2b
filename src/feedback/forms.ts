import { patternOf, readSections } from './sections.ts'

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
