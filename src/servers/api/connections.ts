import type { FastifyInstance } from 'fastify'
import type { Socket } from 'node:net'

/** A server that stops waits for no line longer than for the request that is on it. Browsers and proxies open lines
 *  ahead: one on which nothing was said yet counts as busy with Node. And one that is answered just then would be kept
 *  for the next request, as it was promised before. */
export function hangUpLines (app: FastifyInstance): void {
  const lines = new Set<Socket>()
  let isClosing = false
  app.server.on('connection', line => {
    lines.add(line)
    line.once('close', () => lines.delete(line))
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done(null, payload)
  })
  app.addHook('preClose', async () => {
    isClosing = true
    for (const line of lines) if (line.bytesRead === 0) line.destroy()
  })
}
