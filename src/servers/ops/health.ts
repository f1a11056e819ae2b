import type { FastifyInstance } from 'fastify'
import type { HealthCheck } from '#src/base/role.ts'

/** `/healthz`: the process runs. `/readyz`: it serves, or which part does not and why. Public: nothing here belongs to
 *  an account. */
export function healthRoutes (app: FastifyInstance, checks: HealthCheck[]): void {
  app.get('/healthz', async () => ({ status: 'ok' }))

  app.get('/readyz', async (_request, reply) => {
    const reports = await Promise.all(checks.map(async part => {
      const reason = await Promise.resolve(part.check()).catch((error: Error) => error.message)
      return { name: part.name, ready: reason === null, ...(reason === null ? {} : { reason }), ...part.details?.() }
    }))
    const ready = reports.every(report => report.ready)
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not_ready', parts: reports })
  })
}
