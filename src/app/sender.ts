import { hostname } from 'node:os'
import { ownerOf } from '#src/actions/directory.ts'
import { keepInbound } from '#src/actions/inbound.ts'
import { newId } from '#src/base/id.ts'
import type { Role } from '#src/base/role.ts'
import { startHeartbeats } from '#src/nats/heartbeats.ts'
import { startCatcher } from '#src/servers/mailbox/server.ts'
import { startSender } from '#src/workers/sender/sender.ts'
import type { AppContext } from './context.ts'

/** How many caught mails the mailbox holds. */
const CAUGHT_MAX = 500

/** What a sender needs and what must outlive it: the mail catcher, and its heartbeats. */
export async function openOutbox (context: AppContext) {
  const { config, log, bus, stack } = context
  const catcher = await startCatcher({
    port: config.catcherPort,
    host: '127.0.0.1',
    keepMax: CAUGHT_MAX,
    comeBack: mail => keepInbound(context.services.appenders, mail),
    log
  })
  stack.defer(() => catcher.stop())
  context.catcher = catcher
  const worker = newId('w', Date.now())
  const heartbeats = startHeartbeats(bus, worker)
  stack.defer(() => heartbeats.stop())
  return { catcherUrl: catcher.url, worker, heartbeats }
}

export type Outbox = Awaited<ReturnType<typeof openOutbox>>

export function wireSender (context: AppContext, outbox: Outbox): Role {
  const { config, log, services, metrics, repair, timings } = context
  context.sender = startSender({
    ...outbox,
    appenders: services.appenders,
    blobs: services.blobs,
    suppressions: services.suppressions,
    ownerOf: (domain, expected) => ownerOf(services.directory, domain, expected),
    compose: services.compose,
    repair,
    smtpUrl: config.smtpUrl,
    dns: services.dns,
    mxPort: config.mxPort,
    mxAllowPrivate: config.mxAllowPrivate,
    connections: config.smtpConnections,
    hostname: config.hostname ?? hostname(),
    timings,
    log: log.child({ role: 'sender' }),
    onAttempt: ({ result, class: why, durationMs }) => metrics.smtpAttempt(result, why, durationMs / 1000)
  })
  return context.sender
}
