import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Nullable, Time } from '../define.ts'
import { SendDefaults } from '../email/defaults.ts'

/** The key that signs a domain's mail: published under `<selector>._domainkey.<name>`; the private half is sealed for the context of the domain's id. */
export const DkimKey = Type.Object({ selector: Type.String(), publicKey: Type.String(), sealedKey: Type.String() })
export type DkimKey = Static<typeof DkimKey>

/** What DNS said of one record: `ok`, `missing`, or `wrong` (something else is there, which `found` shows). */
export const RecordState = Type.Object({
  purpose: Type.Union((['dkim', 'return_path', 'dmarc'] as const).map(name => Type.Literal(name))),
  state: Type.Union((['ok', 'missing', 'wrong'] as const).map(name => Type.Literal(name))),
  found: Type.Array(Type.String({ maxLength: 1000 }), { maxItems: 10 })
})
export type RecordState = Static<typeof RecordState>

export const DOMAIN_STATUSES = ['pending', 'verified', 'failed'] as const
export type DomainStatus = typeof DOMAIN_STATUSES[number]

/** A domain became one account's; `name` in lower-case A-labels. */
export const DomainAdded = factType('domain.added', 1, Type.Object({ domain: Id('dom'), name: Type.String(), dkim: DkimKey }))

/** What it says about mail that does not say it itself. */
export const DomainChanged = factType('domain.changed', 1, Type.Object({ domain: Id('dom'), name: Type.String(), defaults: SendDefaults }))

/** DNS said something else than before. `failingSince` = since when a verified domain's records have been wrong; null while they are right. */
export const DomainChecked = factType('domain.checked', 1, Type.Object({
  domain: Id('dom'),
  name: Type.String(),
  status: Type.Union(DOMAIN_STATUSES.map(status => Type.Literal(status))),
  records: Type.Array(RecordState),
  failingSince: Nullable(Time)
}))

export const DomainRemoved = factType('domain.removed', 1, Type.Object({ domain: Id('dom'), name: Type.String() }))

export const domainFacts = [DomainAdded, DomainChanged, DomainChecked, DomainRemoved] as const
