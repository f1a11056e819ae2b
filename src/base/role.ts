/** A worker of this process: it starts, runs until told to stop, and says how it is. */
export interface Role {
  name: string
  /** Takes no new work from now on, finishes what it holds, and resolves. Called once, bounded by the caller. */
  stop(): Promise<void>
  /** null when all is well, else why not, in words for an operator. */
  unhealthyReason(): string | null
}

/** One part of the process as /readyz shows it: why it is not ready (null = it is), and more about it. */
export interface HealthCheck {
  name: string
  check(): Promise<string | null> | string | null
  details?(): Record<string, unknown>
}
