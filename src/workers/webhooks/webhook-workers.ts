import { unhealthyReasonOf, type Role } from '#src/base/role.ts'
import { startBatching } from './batching.ts'
import { BodyCache } from './body-cache.ts'
import { startDispatch, type DispatchOptions } from './dispatch.ts'
import { startFanout } from './fanout.ts'
import { startReplays, type ReplaysOptions } from './replays.ts'

const BODIES_BYTES_MAX = 32 * 1024 * 1024

export type WebhooksOptions =
  & Omit<DispatchOptions, 'bodies'>
  & Pick<ReplaysOptions, 'failedDeliveries' | 'backlog' | 'repair'>

/** The role `webhooks`: from facts to deliveries to requests. Any number of processes may run it. */
export function startWebhooks (options: WebhooksOptions): Role {
  const bodies = new BodyCache(BODIES_BYTES_MAX)
  const dispatch = startDispatch({ ...options, bodies })
  const roles = [
    dispatch,
    startFanout({ ...options, bodies, dispatch }),
    startBatching(options),
    startReplays(options)
  ]
  return {
    name: 'webhooks',
    unhealthyReason: () => unhealthyReasonOf(roles),
    stop: async () => void await Promise.all(roles.map(role => role.stop()))
  }
}
