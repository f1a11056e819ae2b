import { projections } from '#projections/list.ts'
import { failedPages, waitingDeliveries } from '#src/actions/delivery-view.ts'
import { deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { createResolver } from '#src/dns/guard.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { createCheckpoints } from '#src/workers/projector/checkpoints.ts'
import { startReactions } from '#src/workers/reactions/reactions.ts'
import { startRecorder } from '#src/workers/reactions/record.ts'
import { startDomainChecks } from '#src/workers/scheduler/domain-checks.ts'
import { startErasures } from '#src/workers/scheduler/erasures.ts'
import { startReconciler } from '#src/workers/scheduler/reconcile.ts'
import { startUsage } from '#src/workers/scheduler/usage.ts'
import { finishedDeliveries } from '#src/workers/webhooks/done-check.ts'
import { startWebhooks } from '#src/workers/webhooks/webhook-workers.ts'
import type { AppContext } from './context.ts'
import { wireInbound } from './inbound.ts'
import { openOutbox, wireSender } from './sender.ts'

/** Within docker-compose.yml's stop_grace_period, together with what the HTTP server takes. */
const ROLE_STOP_MS = 25_000

/** Starts the workers of the roles that the settings name. */
export async function startRoles (context: AppContext): Promise<void> {
  const { config: { roles }, log, stack } = context
  const working: Role[] = []
  const outbox = roles.has('sender') ? await openOutbox(context) : null
  // All at once: the sender must not go on taking mail while others finish, and together they stay within what an
  // operator's stop allows.
  stack.defer(async () => void await Promise.all(working.map(role => stopInTime(role, log))))
  if (outbox !== null) working.push(wireSender(context, outbox))
  if (roles.has('webhooks')) working.push(wireWebhooks(context))
  if (roles.has('projector')) working.push(...wireProjector(context))
  if (roles.has('scheduler')) working.push(...wireScheduler(context))
  if (roles.has('inbound')) working.push(await wireInbound(context))
  context.roles.push(...working)
}

/** One that hangs does not keep the others from stopping. */
async function stopInTime (role: Role, log: Log): Promise<void> {
  await deadline(role.stop(), ROLE_STOP_MS, `${role.name} did not stop in time`).catch(error =>
    log.warn({ err: error }, 'role cut off')
  )
}

function wireWebhooks ({ config, log, pool, services, metrics, repair }: AppContext): Role {
  return startWebhooks({
    appenders: services.appenders,
    directory: services.directory,
    vault: services.vault,
    repair,
    allowPrivate: config.webhookAllowPrivate,
    resolve: createResolver(config.dns),
    isDone: finishedDeliveries(pool),
    failedDeliveries: failedPages(pool),
    backlog: waitingDeliveries(pool),
    log: log.child({ role: 'webhooks' }),
    onAttempt: ({ result, durationMs }) => metrics.webhookAttempt(result, durationMs / 1000)
  })
}

/** The projections, and the reactions that follow the same facts. */
function wireProjector (context: AppContext): Role[] {
  const { log, bus, pool, services: { appenders }, servers, repair } = context
  const shared = { bus, pool, log: log.child({ role: 'projector' }) }
  context.projectors = createProjectors({
    ...shared,
    projections,
    rebuild: openRebuilder({ ...shared, ...servers }).rebuild
  })
  return [
    ...context.projectors,
    startReactions({ appenders, repair, log: log.child({ role: 'reactions' }) }),
    startRecorder({ appenders, log: log.child({ role: 'records' }) })
  ]
}

function wireScheduler (context: AppContext): Role[] {
  const { log, bus, pool, services, repair } = context
  const reconciler = startReconciler({
    bus,
    pool,
    blobs: services.blobs,
    repair,
    log: log.child({ role: 'scheduler' })
  })
  context.reconcileSoon = () => reconciler.afterLoss()
  return [
    reconciler,
    startDomainChecks({ services, log: log.child({ role: 'domain checks' }) }),
    startUsage({ services, pool, checkpoints: createCheckpoints(bus, pool), log: log.child({ role: 'usage' }) }),
    startErasures({ services, pool, checkpoints: createCheckpoints(bus, pool), log: log.child({ role: 'erasures' }) })
  ]
}
