import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'

/** Of a stream: what the server says about it. Times Unix ms; `ageMs` Infinity = kept for ever. */
export interface StreamState {
  first: number
  last: number
  createdMs: number
  ageMs: number
}

interface Info {
  created: string
  config: { max_age: number }
  state: { first_seq: number, last_seq: number }
}

export async function stateOf (bus: Bus, stream: string): Promise<StreamState> {
  const { created, config, state } = await api<Info>(bus, `STREAM.INFO.${stream}`, undefined)
  return {
    first: state.first_seq,
    last: state.last_seq,
    createdMs: Date.parse(created),
    ageMs: config.max_age === 0 ? Infinity : config.max_age / 1e6
  }
}
