import type { Role } from '#src/base/role.ts'
import { createBodies } from './bodies.ts'
import { startDispatch, type DispatchOptions } from './dispatch.ts'
import { startFanout } from './fanout.ts'
import { startGather } from './gather.ts'
import { startReplays, type ReplaysOptions } from './replay.ts'

const BODIES_BYTES_MAX = 32 * 1024 * 1024

export type WebhooksOptions = Omit<DispatchOptions, 'bodies'> & Pick<ReplaysOptions, 'failedDeliveries' | 'backlog'>

/** The role `webhooks`: from facts to deliveries to requests. Any number of processes may run it. */
export function startWebhooks (options: WebhooksOptions): Role {
  const bodies = createBodies(BODIES_BYTES_MAX)
  const parts = [
    startFanout({ ...options, bodies }),
    startGather(options),
    startReplays(options),
    startDispatch({ ...options, bodies })
  ]
  return {
    name: 'webhooks',
    unhealthyReason: () =>
      parts.map(part => part.unhealthyReason()).find(unhealthyReason => unhealthyReason !== null) ?? null,
    stop: async () => void await Promise.all(parts.map(part => part.stop()))
  }
}
