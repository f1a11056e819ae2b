import type { FeedbackProvider } from '#streams/feedback-source/facts.ts'
import { CLASSES, type BounceClass } from '#streams/email/classes.ts'
import { REPORT_KINDS, type RelayReportKind } from '#streams/inbound/facts.ts'
import { readSections } from '../sections.ts'

interface RelayType {
  /** null = it is a reason beside another event. */
  kind: RelayReportKind | null
  class: BounceClass
  /** It counts whatever else a report says. */
  isFirst: boolean
}

const LINE = /^(.+) = (\S+)(?: ([a-z]+)(!?))?$/

/** By relay and type; see phrases/relays.txt. Throws at start when a line does not follow the form. */
const TYPES = new Map(
  readSections('relays.txt').flatMap(({ head: [relay], lines }) =>
    lines.map((line): [string, RelayType] => {
      const [, type, kind, why = 'undefined', mark] = LINE.exec(line) ?? []
      const isKnown = kind === '-' || REPORT_KINDS.includes(kind as RelayReportKind)
      if (!isKnown || !CLASSES.includes(why as BounceClass)) {
        throw new Error(`relays.txt: not a type of a relay: ${line}`)
      }
      return [`${relay} ${type}`, {
        kind: kind === '-' ? null : kind as RelayReportKind,
        class: why as BounceClass,
        isFirst: mark === '!'
      }]
    })
  )
)

/** What an event of a relay is to us; null = nothing. */
export function kindOfType (relay: FeedbackProvider, type: string): RelayReportKind | null {
  return TYPES.get(`${relay} ${type}`)?.kind ?? null
}

/** The class of a report: the relay's own word for the reason, and what else the report says. */
export function classBy (relay: string, type: string, said: BounceClass): BounceClass {
  const known = TYPES.get(`${relay} ${type}`)
  return known !== undefined && (known.isFirst || said === 'undefined') ? known.class : said
}
