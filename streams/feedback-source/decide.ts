import { Refusal, type UnstampedOf } from '../define.ts'
import {
  FeedbackSourceChanged,
  FeedbackSourceDeleted,
  FeedbackSourceKeyResealed,
  FeedbackSourceSecretRotated,
  feedbackSourceFacts,
  type FeedbackMapping,
  type FeedbackProvider
} from './facts.ts'
import type { FeedbackSourceEntry } from './state.ts'

/** Each is looked at with every request that names it, and all are held in memory. */
export const FEEDBACK_SOURCES_MAX = 1000
/** How long the URL from before a rotation goes on working. */
const OVERLAP_MS = 24 * 3_600_000
/** In all partitions of AWS. Source: AWS General Reference, "Amazon Resource Names". */
const TOPIC_ARN = /^arn:aws[a-z-]*:sns:[a-z0-9-]{1,40}:\d{12}:[\w.-]{1,256}$/

export type FeedbackSourceDecision = UnstampedOf<typeof feedbackSourceFacts[number]>

export interface FeedbackSourceSettings {
  name: string
  sealedKey: string | null
  topicArn: string | null
  mapping: FeedbackMapping | null
}

/** Whose requests are signed, and with what; the others have their URL's secret alone. */
export const HAS_KEY: Record<FeedbackProvider, boolean> = {
  ses: false,
  mailgun: true,
  postmark: false,
  sendgrid: true,
  brevo: false,
  generic: false
}

/** What a source must have, and must not, by its provider. */
export function settingsFault (
  provider: FeedbackProvider,
  { hasKey, topicArn, mapping }: { hasKey: boolean, topicArn: string | null, mapping: FeedbackMapping | null }
): Refusal | null {
  const refuse = (field: string, must: string) => new Refusal(`invalid_${field}`, `${field} must ${must}.`)
  if (hasKey !== HAS_KEY[provider]) {
    return refuse('verification_key', HAS_KEY[provider] ? `be the one of ${provider}` : `be left out for ${provider}`)
  }
  if ((topicArn !== null) !== (provider === 'ses')) {
    return refuse('topic_arn', provider === 'ses' ? 'name the topic of Amazon SNS' : `be left out for ${provider}`)
  }
  if (topicArn !== null && !TOPIC_ARN.test(topicArn)) return refuse('topic_arn', 'be the ARN of a topic of Amazon SNS')
  if ((mapping !== null) !== (provider === 'generic')) {
    return refuse('mapping', provider === 'generic' ? 'say where a report has what' : `be left out for ${provider}`)
  }
  return null
}

/** `count` = the sources there are. */
export function countFault (count: number): Refusal | null {
  return count < FEEDBACK_SOURCES_MAX
    ? null
    : new Refusal(
      'too_many_sources',
      `There can be at most ${FEEDBACK_SOURCES_MAX} feedback sources: delete one first.`
    )
}

/** Whether the secret with this hash opens it now: `isSame` compares in constant time. */
export function opens (
  { hash, previous }: FeedbackSourceEntry,
  nowMs: number,
  isSame: (hash: string) => boolean
): boolean {
  return isSame(hash) || (previous !== null && nowMs < previous.untilMs && isSame(previous.hash))
}

/** Nothing when the settings are the same. */
export function decideChange (
  source: FeedbackSourceEntry,
  change: Partial<FeedbackSourceSettings>
): FeedbackSourceDecision[] | Refusal {
  const { id, provider, name, sealedKey, topicArn, mapping } = source
  const before: FeedbackSourceSettings = { name, sealedKey, topicArn, mapping }
  const after = { ...before, ...change }
  const fault = settingsFault(provider, { ...after, hasKey: after.sealedKey !== null })
  if (fault !== null) return fault
  return JSON.stringify(before) === JSON.stringify(after)
    ? []
    : [{ type: FeedbackSourceChanged, data: { source: id, ...after } }]
}

export function decideRotation ({ id }: FeedbackSourceEntry, hash: string, nowMs: number): FeedbackSourceDecision[] {
  const previousUntil = new Date(nowMs + OVERLAP_MS).toISOString()
  return [{ type: FeedbackSourceSecretRotated, data: { source: id, hash, previousUntil } }]
}

/** `reseal` says what becomes of a sealed key, null = it stays. */
export function decideReseal (
  { id, sealedKey: before }: FeedbackSourceEntry,
  reseal: (sealed: string) => string | null
): FeedbackSourceDecision[] {
  const sealedKey = before === null ? null : reseal(before)
  return sealedKey === null ? [] : [{ type: FeedbackSourceKeyResealed, data: { source: id, sealedKey } }]
}

export function decideDelete ({ id }: FeedbackSourceEntry): FeedbackSourceDecision[] {
  return [{ type: FeedbackSourceDeleted, data: { source: id } }]
}
