import { Type } from '@sinclair/typebox'
import { factType, Id } from '../define.ts'

/** A domain became one account's; `name` in lower-case A-labels. */
export const DomainAdded = factType('domain.added', 1, Type.Object({ domain: Id('dom'), name: Type.String() }))

export const DomainRemoved = factType('domain.removed', 1, Type.Object({ domain: Id('dom'), name: Type.String() }))

export const domainFacts = [DomainAdded, DomainRemoved] as const
