import { Type, type Static } from '@sinclair/typebox'
import { AnyName, factType, Id, Name, Nullable, Time } from '../define.ts'
import { REPORT_KINDS } from '../inbound/facts.ts'

/** Who reports. `generic` = any service that posts JSON, read by the source's mapping. */
export const FEEDBACK_PROVIDERS = ['ses', 'mailgun', 'postmark', 'sendgrid', 'brevo', 'generic'] as const
export type FeedbackProvider = typeof FEEDBACK_PROVIDERS[number]

export const POINTER_LENGTH_MAX = 200
export const KINDS_MAX = 50
/** Into a report (RFC 6901); '' = all of it. */
export const JsonPointer = Type.String({ maxLength: POINTER_LENGTH_MAX, pattern: '^(/[\\s\\S]*)?$' })

/** Where a generic report says what. `reports` leads to one report or a list of them, the other pointers into each;
 *  `kinds` = what a word found at `kind` means: other words mean nothing. */
export const FeedbackMapping = Type.Object({
  reports: JsonPointer,
  messageId: JsonPointer,
  recipient: Nullable(JsonPointer),
  kind: JsonPointer,
  reason: Nullable(JsonPointer),
  time: Nullable(JsonPointer),
  kinds: Type.Record(AnyName, Type.Union(REPORT_KINDS.map(kind => Type.Literal(kind))), { maxProperties: KINDS_MAX })
})
export type FeedbackMapping = Static<typeof FeedbackMapping>

const source = { source: Id('fs') }
const hash = Type.String({ pattern: '^[0-9a-f]{64}$' })
const settings = {
  name: Name,
  /** What its requests are verified with: Mailgun's signing key, SendGrid's public key; sealed for the context of the
   *  source's id. null = the URL's secret is all there is. */
  sealedKey: Nullable(Type.String()),
  /** The one topic of Amazon SNS that counts. */
  topicArn: Nullable(Type.String({ maxLength: 2048 })),
  mapping: Nullable(FeedbackMapping)
}

/** A service that tells us what became of mail has a URL of its own. */
export const FeedbackSourceCreated = factType(
  'feedback_source.created',
  1,
  Type.Object({
    ...source,
    provider: Type.Union(FEEDBACK_PROVIDERS.map(name => Type.Literal(name))),
    ...settings,
    /** SHA-256 of the secret in its URL, hex; the secret itself is nowhere. */
    hash,
    /** The one account whose mail it may report on; null = that of all. */
    onlyAccount: Nullable(Id('acc'))
  })
)

/** All of what may be changed, as it is from now on. */
export const FeedbackSourceChanged = factType('feedback_source.changed', 1, Type.Object({ ...source, ...settings }))

/** Its URL has a new secret; the one before works until `previousUntil`. */
export const FeedbackSourceSecretRotated = factType(
  'feedback_source.secret_rotated',
  1,
  Type.Object({ ...source, hash, previousUntil: Time })
)

/** The same key, sealed with the newest of JETPOST_SECRET. */
export const FeedbackSourceKeyResealed = factType(
  'feedback_source.key_resealed',
  1,
  Type.Object({ ...source, sealedKey: Type.String() })
)

export const FeedbackSourceDeleted = factType('feedback_source.deleted', 1, Type.Object(source))

export const feedbackSourceFacts = [
  FeedbackSourceCreated,
  FeedbackSourceChanged,
  FeedbackSourceSecretRotated,
  FeedbackSourceKeyResealed,
  FeedbackSourceDeleted
] as const
