import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import type { Socket } from 'node:net'
import { isInRanges, type AddressRanges } from '#src/base/config-values.ts'
import type { Log } from '#src/base/log.ts'
import { networkOf } from '#src/base/network.ts'

/** Connections of this process at once, as far as its descriptors allow, and of one address or IPv6 network. */
const CONNECTIONS_MAX = 10_000
const OF_ADDRESS_MAX = 1000
/** Of the descriptors of this process; the rest is for NATS, PostgreSQL, SMTP and webhooks. */
const DESCRIPTORS_SHARE = 0.5
const TOLD_MS = 60_000

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

/** Bounds connections, in all and of each address or IPv6 network that is not one of our proxies'. One too many is
 *  closed at once. */
export function boundConnections (app: FastifyInstance, proxies: AddressRanges, log: Log): void {
  const counts = new Map<string, number>()
  const refuse = refusing(log)
  app.server.maxConnections = connectionsMax()
  app.server.on('drop', () => refuse())
  app.server.on('connection', (connection: Socket) => {
    const { remoteAddress } = connection
    if (remoteAddress === undefined || isInRanges(proxies, remoteAddress)) return
    const address = networkOf(remoteAddress)
    const count = (counts.get(address) ?? 0) + 1
    counts.set(address, count)
    connection.once('close', () => {
      const left = counts.get(address)! - 1
      if (left === 0) counts.delete(address)
      else counts.set(address, left)
    })
    if (count <= OF_ADDRESS_MAX) return
    connection.destroy()
    refuse(address)
  })
}

/** Tells at most once a minute. */
function refusing (log: Log): (address?: string) => void {
  let [refused, toldMs] = [0, -Infinity]
  return address => {
    refused++
    const nowMs = performance.now()
    if (nowMs - toldMs < TOLD_MS) return
    log.warn({ refused, address }, 'HTTP connections refused: too many at once')
    refused = 0
    toldMs = nowMs
  }
}

function connectionsMax (): number {
  const descriptors = descriptorsMax()
  return Math.min(CONNECTIONS_MAX, Math.max(1, Math.floor(descriptors * DESCRIPTORS_SHARE)))
}

/** Infinity where the system does not say. Source: proc_pid_limits(5). */
function descriptorsMax (): number {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return soft === undefined ? Infinity : Number(soft)
  } catch {
    return Infinity
  }
}
