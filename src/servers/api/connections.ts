import type { FastifyInstance } from 'fastify'
import type { Socket } from 'node:net'

/** Makes a server stop as soon as the requests it has are answered. Browsers and proxies open connections ahead, and
 *  Node takes one without a request yet for busy. A connection whose request is answered while the server stops
 *  would be kept for the next one, as promised before. */
export function closeIdleConnections (app: FastifyInstance): void {
  const connections = new Set<Socket>()
  let isClosing = false
  app.server.on('connection', connection => {
    connections.add(connection)
    connection.once('close', () => connections.delete(connection))
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done(null, payload)
  })
  app.addHook('preClose', async () => {
    isClosing = true
    for (const connection of connections) if (connection.bytesRead === 0) connection.destroy()
  })
}
