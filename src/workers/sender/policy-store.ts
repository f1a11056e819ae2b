import { subjects } from '#streams/subjects.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getMessage } from '#src/nats/get.ts'
import { publishUnacknowledged } from '#src/nats/publish.ts'
import type { CachedPolicy, PolicyStore } from './mta-sts.ts'

/** Policies in the stream POLICIES. */
export function createPolicyStore (bus: Bus): PolicyStore {
  const subjectOf = (domain: string) => subjects.policy(sha256Hex(domain))
  return {
    async read (domain) {
      const message = await getMessage(bus, 'POLICIES', { last_by_subj: subjectOf(domain) })
      return message === null ? null : JSON.parse(Buffer.from(message.data).toString()) as CachedPolicy
    },
    write: (domain, policy) => publishUnacknowledged(bus, subjectOf(domain), JSON.stringify(policy))
  }
}
