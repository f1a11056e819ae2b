import type { StreamName } from './log-index.ts'
import type { StreamState } from './state.ts'

/** What is known of the streams when all is read. */
export interface Known {
  states: Record<StreamName, StreamState>
  /** How long content is kept. */
  contentMs: number
  /** When the reading was over, Unix ms. */
  nowMs: number
}

/** Why sequences are not there any more: by the stream's age, by a time of their own, by an erasure. */
export interface Gone {
  aged: number
  expired: number
  erased: number
}
