import { hostname } from 'node:os'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { startInbound, type InboundServer } from '#src/servers/inbound-smtp/server.ts'
import { startInboundWorker } from '#src/workers/inbound/inbound-worker.ts'
import type { AppContext } from './context.ts'

/** The worker that reads mail that came back, and the listener that takes it in. */
export async function wireInbound (context: AppContext): Promise<Role> {
  const { services, metrics, repair } = context
  const log = context.log.child({ role: 'inbound' })
  const worker = startInboundWorker({
    appenders: services.appenders,
    tokens: services.tokens,
    repair,
    log,
    onMail: ({ kind, outcome }) => metrics.inboundMail(kind, outcome)
  })
  context.inbound = await openListener(context, log)
  return worker
}

/** null = nothing listens: mail comes to another process, or not at all. */
async function openListener ({ config, services, stack }: AppContext, log: Log): Promise<InboundServer | null> {
  const { inboundPort: port, inboundHost: host, bounceDomain, tlsCert, tlsKey } = config
  if (port === null) return null
  if (bounceDomain === null) {
    log.warn('JETPOST_INBOUND_PORT is set without JETPOST_BOUNCE_DOMAIN: no mail names a return path to this listener')
  }
  const { directory, tokens, appenders } = services
  const inbound = await startInbound({
    port,
    host,
    hostname: config.hostname ?? bounceDomain ?? hostname(),
    bounceDomain,
    tlsCert,
    tlsKey,
    directory,
    tokens,
    appenders,
    log
  })
  stack.defer(() => inbound.stop())
  return inbound
}
