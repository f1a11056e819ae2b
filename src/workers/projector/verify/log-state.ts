import type { FactStream } from '#streams/place.ts'
import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'

/** What the server says of a stream. Times Unix ms; `ageMs` Infinity = kept for ever. */
export interface StreamExtent {
  first: number
  last: number
  createdMs: number
  ageMs: number
}

/** What is known of the streams once all is read. */
export interface LogState {
  streams: Record<FactStream, StreamExtent>
  /** How long content is kept. */
  contentMs: number
  /** When reading ended, Unix ms. */
  nowMs: number
}

interface Info {
  created: string
  config: { max_age: number }
  state: { first_seq: number, last_seq: number }
}

export async function extentOf (bus: Bus, stream: string): Promise<StreamExtent> {
  const { created, config, state } = await api<Info>(bus, `STREAM.INFO.${stream}`, undefined)
  return {
    first: state.first_seq,
    last: state.last_seq,
    createdMs: Date.parse(created),
    ageMs: config.max_age === 0 ? Infinity : config.max_age / 1e6
  }
}
