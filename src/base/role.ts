import { asError } from './errors.ts'

/** A worker of this process: it runs until it is stopped, and reports its health. */
export interface Role {
  name: string
  /** Accepts no new work, finishes what it has, and resolves. Called once, with the caller's deadline. */
  stop(): Promise<void>
  /** Why it is unhealthy, for an operator; null = it is healthy. */
  unhealthyReason(): string | null
}

/** The first one's of those that are unhealthy. */
export function unhealthyReasonOf (roles: Role[]): string | null {
  for (const role of roles) {
    const reason = role.unhealthyReason()
    if (reason !== null) return reason
  }
  return null
}

/** Why a part is not ready, also when the question itself fails; null = it is. */
export async function reasonOf ({ check }: Pick<HealthCheck, 'check'>): Promise<string | null> {
  return await Promise.resolve().then(check).catch((error: unknown) => asError(error).message)
}

/** Another server of a cluster is found within it. */
export const SERVER_GRACE_MS = 5000
/** A role waits for elections, and for views. */
export const ROLE_GRACE_MS = 60_000

/** One part of the process, as Operations and /readyz show it. */
export interface HealthCheck {
  name: string
  /** Why it is not ready, for an operator; null = it is. */
  check(): Promise<string | null> | string | null
  /** For so many ms after it was last seen ready, its trouble does not make the process unready: it may be everybody's,
   *  as while NATS elects a leader, and no other process would do better. */
  graceMs: number
  /** What anybody may know of it. */
  details?(): Record<string, unknown>
}
