import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { erasureHashes, loadErasures, requestErasure } from '#src/actions/erasure.ts'
import { parseAddress } from '#streams/address.ts'
import type { ErasureState } from '#streams/erasure/state.ts'
import { misused, readArgs, type CliCommand } from './command.ts'
import { withServices, granted, knownAccount } from './open-services.ts'
import { print } from './table.ts'

const ACCOUNT = { account: { type: 'string', default: FIRST_ACCOUNT } } as const

export const erase: CliCommand = {
  usage: 'jetpost erase <address> [--account <id>] [--json]',
  details: `  Erases an address from the log and from every projection. The running service does it, in the role
  scheduler: jetpost erasures shows how far it is. No erasure reaches the write-ahead log of PostgreSQL and the
  free space in its pages, the Raft log of a cluster, backups, and what receivers of webhooks answered
  (30 days).
  --account  defaults to the first account`,
  async run (args) {
    const { positionals: [address, ...more], values } = readArgs(args, ACCOUNT)
    if (address === undefined || more.length > 0) throw misused(erase)
    const erasure = await withServices(async (services, by) => {
      const account = knownAccount(services, values.account)
      const hashes = erasureHashes(services.vault, account, parseAddress(address) ?? '')
      const pending = (await loadErasures(services.factLog, account)).find(one =>
        one.completedAt === null && hashes.includes(one.hash)
      )
      return pending ?? granted(await requestErasure(services, { account, ...by }, address))
    })
    print([rowOf(erasure)], values.json)
  }
}

export const erasures: CliCommand = {
  usage: 'jetpost erasures [--account <id>] [--json]',
  details: '  The newest first, with what each has done so far. --account defaults to the first account.',
  async run (args) {
    const { positionals, values } = readArgs(args, ACCOUNT)
    if (positionals.length > 0) throw misused(erasures)
    const found = await withServices(async services =>
      await loadErasures(services.factLog, knownAccount(services, values.account))
    )
    print(found.map(rowOf), values.json)
  }
}

function rowOf ({ id, hash, requestedAt, completedAt, counts }: ErasureState): Record<string, unknown> {
  return {
    id,
    status: completedAt === null ? 'pending' : 'completed',
    address_hash: hash,
    requested_at: requestedAt,
    completed_at: completedAt ?? '',
    ...counts
  }
}
