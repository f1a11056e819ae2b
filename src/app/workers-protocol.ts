import type { Config } from '#src/base/config.ts'
import type { MetricsReport } from '#src/servers/ops/metrics.ts'
import type { Servers } from '#src/workers/projector/rebuild.ts'

/** What a second process does, and with whose servers. */
export interface Assignment {
  /** The settings of both, with the roles of the second. */
  config: Config
  servers: Pick<Servers, 'natsUrl' | 'databaseUrl'>
  /** `smtp://127.0.0.1:port` of the first process's mail catcher. */
  catcherUrl: string | null
}

/** One part of a process, as /readyz tells it; `reason` null = it is ready. */
export interface PartReport {
  name: string
  reason: string | null
  details: Record<string, unknown>
}

/** What is asked of the second process; each has an answer of its kind, empty until its roles run. */
export interface Answers {
  parts: PartReport[]
  metrics: MetricsReport
}

export type ToWorkers =
  | { type: 'start', assignment: Assignment }
  | { type: 'ask', id: number, what: keyof Answers }
  | { type: 'stop' }

export type FromWorkers =
  | { type: 'started', inboundPort: number | null }
  /** `isComplaint` = the message is for the operator, and says all. */
  | { type: 'failed', message: string, isComplaint: boolean }
  | { type: 'answer', id: number, value: Answers[keyof Answers] }
