/** What the page Operations shows and does, whoever brings it: the rooms it looks into are none of the dashboard's. */
export interface Operations {
  /** The parts of this process, as /readyz has them. */
  parts (): Promise<PartReport[]>
  streams (): Promise<StreamReport[]>
  projections (): Promise<ProjectionReport[]>
  /** Begins to make a view anew, beside the one that is read. A sentence when it cannot be; null = it has begun. */
  rebuild (projection: string): Promise<string | null>
}

export interface PartReport { name: string, reason: string | null }

export interface StreamReport {
  name: string
  messages: number
  bytes: number
  /** RFC 3339; null = there is none. */
  firstAt: string | null
  /** Bounds of the stream, 0 = none. */
  ageMsMax: number
  replicas: number
  consumers: Array<{ name: string, pending: number, ackPending: number, redelivered: number }>
}

export interface ProjectionReport {
  name: string
  version: number
  lagFacts: number
  lagSeconds: number
  /** Facts that could not be written, with the reason of the last ones. */
  parked: Array<{ stream: string, seq: number, reason: string, at: string }>
  parkedCount: number
  /** While it is made anew, or for a while after. */
  rebuild: { done: number, total: number, rate: number, state: 'running' | 'done' | 'failed', reason: string | null } | null
}
