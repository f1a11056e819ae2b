import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Nullable, Time } from '../define.ts'
import { SendDefaults } from '../email/defaults.ts'

/** A key that signs a domain's mail. `publicKey` is published under `<selector>._domainkey.<name>`, as it stands in p=;
 *  the private half is sealed for the context of the domain's id. */
export const DkimKey = Type.Object({
  algorithm: Type.Union((['rsa-sha256', 'ed25519-sha256'] as const).map(name => Type.Literal(name))),
  selector: Type.String(),
  publicKey: Type.String(),
  sealedKey: Type.String()
})
export type DkimKey = Static<typeof DkimKey>

/** Those that sign together: RSA for every receiver, Ed25519 for those that read it. */
const DkimPair = Type.Array(DkimKey, { minItems: 1, maxItems: 2 })

/** What DNS said of one record: `ok`, `missing`, or `wrong` (something else is there, which `found` shows). */
export const RecordState = Type.Object({
  /** Of the record, whole: it tells the keys apart. */
  name: Type.String(),
  purpose: Type.Union((['dkim', 'return_path', 'dmarc'] as const).map(name => Type.Literal(name))),
  state: Type.Union((['ok', 'missing', 'wrong'] as const).map(name => Type.Literal(name))),
  found: Type.Array(Type.String({ maxLength: 1000 }), { maxItems: 10 })
})
export type RecordState = Static<typeof RecordState>

/** The same of the SPF record, which only mail in direct mode needs. */
const SpfState = Type.Omit(RecordState, ['purpose'])
export type SpfState = Static<typeof SpfState>

export const DOMAIN_STATUSES = ['pending', 'verified', 'failed'] as const
export type DomainStatus = typeof DOMAIN_STATUSES[number]

/** A domain became one account's; `name` in lower-case A-labels. */
export const DomainAdded = factType(
  'domain.added',
  1,
  Type.Object({ domain: Id('dom'), name: Type.String(), dkim: DkimPair })
)

/** What it says about mail that does not say it itself. */
export const DomainChanged = factType(
  'domain.changed',
  1,
  Type.Object({ domain: Id('dom'), name: Type.String(), defaults: SendDefaults })
)

/** DNS said something else than before. `failingSince` = since when a verified domain's records have been wrong; null
 *  while they are right. */
export const DomainChecked = factType(
  'domain.checked',
  1,
  Type.Object({
    domain: Id('dom'),
    name: Type.String(),
    status: Type.Union(DOMAIN_STATUSES.map(status => Type.Literal(status))),
    records: Type.Array(RecordState),
    /** SPF of the return path, where it was looked up. */
    spf: Type.Optional(SpfState),
    failingSince: Nullable(Time)
  })
)

/** New keys were made. They sign as soon as DNS shows them. */
export const DomainRotationStarted = factType(
  'domain.rotation_started',
  1,
  Type.Object({ domain: Id('dom'), name: Type.String(), dkim: DkimPair })
)

/** The new keys sign. The old ones stay published until `previousUntil`, for mail that is on its way. */
export const DomainKeysSwitched = factType(
  'domain.keys_switched',
  1,
  Type.Object({ domain: Id('dom'), name: Type.String(), previousUntil: Time })
)

/** The same keys, sealed with the newest of JETPOST_SECRET. */
export const DomainKeysResealed = factType(
  'domain.keys_resealed',
  1,
  Type.Object({
    domain: Id('dom'),
    name: Type.String(),
    /** Those that sign, or will; at most two pairs. */
    keys: Type.Array(Type.Pick(DkimKey, ['selector', 'sealedKey']), { minItems: 1, maxItems: 4 })
  })
)

/** No mail needs the old keys any more. */
export const DomainKeysRetired = factType(
  'domain.keys_retired',
  1,
  Type.Object({ domain: Id('dom'), name: Type.String() })
)

export const DomainRemoved = factType('domain.removed', 1, Type.Object({ domain: Id('dom'), name: Type.String() }))

export const domainFacts = [
  DomainAdded,
  DomainChanged,
  DomainChecked,
  DomainRotationStarted,
  DomainKeysSwitched,
  DomainKeysResealed,
  DomainKeysRetired,
  DomainRemoved
] as const
