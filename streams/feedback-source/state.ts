import type { AnyFact, FactOn } from '../catalog.ts'
import type { FeedbackMapping, FeedbackProvider } from './facts.ts'

export interface FeedbackSourceEntry {
  id: string
  name: string
  provider: FeedbackProvider
  /** Of the secret in its URL. */
  hash: string
  /** The secret before the last rotation, while it still works; Unix ms. */
  previous: { hash: string, untilMs: number } | null
  sealedKey: string | null
  topicArn: string | null
  mapping: FeedbackMapping | null
  onlyAccount: string | null
  createdAt: string
}

export function isOfFeedbackSource (fact: AnyFact): fact is FactOn<'feedback_source'> {
  return fact.type.startsWith('feedback_source.')
}

/** Folds one fact into the sources, in place. */
export function evolveFeedbackSources (
  sources: Map<string, FeedbackSourceEntry>,
  fact: FactOn<'feedback_source'>
): void {
  if (fact.type === 'feedback_source.created') {
    const { source: id, ...data } = fact.data
    sources.set(id, { id, ...data, previous: null, createdAt: fact.time })
    return
  }
  const source = sources.get(fact.data.source)
  if (source === undefined) return
  switch (fact.type) {
    case 'feedback_source.changed': {
      const { source: _id, ...settings } = fact.data
      Object.assign(source, settings)
      break
    }
    case 'feedback_source.secret_rotated':
      source.previous = { hash: source.hash, untilMs: Date.parse(fact.data.previousUntil) }
      source.hash = fact.data.hash
      break
    case 'feedback_source.key_resealed':
      source.sealedKey = fact.data.sealedKey
      break
    case 'feedback_source.deleted':
      sources.delete(source.id)
  }
}
