import type { FastifyInstance } from 'fastify'

/** One part of the process: its name, and why it is not ready (null = it is). `tell` = what else is to be known of it.
 */
export interface Part {
  name: string
  check(): Promise<string | null> | string | null
  tell?(): Record<string, unknown>
}

/** `/healthz`: the process runs. `/readyz`: it serves, or which part does not and why. No key: nothing here is
 *  anybody's. */
export function healthRoutes (app: FastifyInstance, parts: Part[]): void {
  app.get('/healthz', async () => ({ status: 'ok' }))

  app.get('/readyz', async (_request, reply) => {
    const reports = await Promise.all(parts.map(async part => {
      const reason = await Promise.resolve(part.check()).catch((error: Error) => error.message)
      return { name: part.name, ready: reason === null, ...(reason === null ? {} : { reason }), ...part.tell?.() }
    }))
    const ready = reports.every(report => report.ready)
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not_ready', parts: reports })
  })
}
