import { decodeFact, Newer, type AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { asError } from '#src/base/errors.ts'

/** A message as a stream stores it, whatever it holds. */
export interface StoredMessage {
  stream: string
  seq: number
  subject: string
  /** Unix ms, fractions cut off. */
  storedMs: number
  data: Uint8Array
  /** '' = it has no such header. */
  header(name: string): string
}

/** A fact, and when its stream stored it: Unix ms, fractions cut off. */
export interface StoredFact extends Recorded<AnyFact> {
  storedMs: number
}

/** A message as a fact, or why it cannot be read as one. */
export interface DecodedMessage {
  seq: number
  subject: string
  fact: AnyFact | null
  /** '' = it can. */
  reason: string
  /** A newer Jetpost can. */
  newer: boolean
}

/** A fact as it lies in a stream; read by several, it is decoded once. */
export interface EncodedFact extends Pick<StoredMessage, 'seq' | 'subject' | 'data'> {
  decoded?: AnyFact
}

/** Throws when the message does not fit its schema. */
export function decodeMessage (message: EncodedFact): Recorded<AnyFact> {
  const { seq, subject, data } = message
  return { fact: message.decoded ??= decodeFact(data), seq, subject }
}

/** Throws when the message does not fit its schema. */
export function decodeStored ({ seq, subject, storedMs, data }: StoredMessage): StoredFact {
  return { fact: decodeFact(data), seq, subject, storedMs }
}

/** For a reader that must go on past messages that are not facts, or facts of a newer Jetpost. */
export function tryDecode (message: EncodedFact): DecodedMessage {
  const { seq, subject } = message
  try {
    return { ...decodeMessage(message), reason: '', newer: false }
  } catch (error) {
    return { seq, subject, fact: null, reason: asError(error).message, newer: error instanceof Newer }
  }
}
