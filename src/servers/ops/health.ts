import type { FastifyInstance } from 'fastify'
import type { Log } from '#src/base/log.ts'
import { reasonOf, type HealthCheck } from '#src/base/role.ts'

/** A reason may quote NATS or PostgreSQL, with names of hosts and users. */
const REASON = 'not ready: the log and the Operations page say why'

/** `/healthz`: the process runs. `/readyz`: it serves, and which part does not; why stands in the log. Public: nothing
 *  here belongs to an account, or comes from another server. */
export function healthRoutes (app: FastifyInstance, checks: HealthCheck[], log: Log): void {
  const told = new Map<string, string | null>()
  /** When each part was last seen ready, in ms on the steady clock. */
  const seenReady = new Map<string, number>()

  /** Once for each reason: anybody may ask at any rate. */
  function tell (part: string, reason: string | null): void {
    if (reason !== null && reason !== told.get(part)) log.warn({ part, reason }, 'not ready')
    told.set(part, reason)
  }

  function isBorne ({ name, graceMs }: HealthCheck): boolean {
    return performance.now() - (seenReady.get(name) ?? -Infinity) < graceMs
  }

  app.get('/healthz', async () => ({ status: 'ok' }))

  app.get('/readyz', async (_request, reply) => {
    const reports = await Promise.all(checks.map(async ({ name, check, details }) => {
      const reason = await reasonOf({ check })
      tell(name, reason)
      if (reason === null) seenReady.set(name, performance.now())
      return { name, ready: reason === null, ...(reason === null ? {} : { reason: REASON }), ...details?.() }
    }))
    const ready = checks.every((check, i) => reports[i]!.ready || isBorne(check))
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not_ready', parts: reports })
  })
}
