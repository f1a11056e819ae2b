import {
  foldAddress,
  isSandbox,
  sandboxStanding,
  suppressionOf,
  type SuppressionState,
  type SuppressionFact
} from '#streams/suppression/decide.ts'
import type { StandingReason } from '#streams/suppression/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import { createLookup } from '#src/nats/lookup.ts'

/** Who gets no mail, as the log says now. */
export interface SuppressionStore {
  /** Why each of the addresses gets no mail, in their order; empty = it may. Many callers share one request. Throws
   *  when NATS does not answer. */
  standing(account: string, addresses: readonly string[]): Promise<ReadonlyArray<readonly StandingReason[]>>
}

export function openSuppressionStore (bus: Bus): SuppressionStore {
  const lookup = createLookup(bus, 'CONTROL')
  return {
    async standing (account, addresses) {
      const asked = addresses.filter(address => !isSandbox(address))
      const last = await lookup.last(asked.map(address => subjects.suppression(account, suppressionHash(address))))
      const found = new Map(
        asked.map((address, i) => [address, suppressionOf(last[i] as SuppressionFact | null).standing])
      )
      return addresses.map(address => (isSandbox(address) ? sandboxStanding(address) : found.get(address)!))
    }
  }
}

/** What stands for a normalised address in subjects and views: it can be found by who knows it, and stays when the
 *  address itself is erased. */
export function suppressionHash (address: string): string {
  return sha256Hex(foldAddress(address))
}

/** One address as the log's leader knows it, its last fact (null = none) and that one's sequence (0). Throws when NATS
 *  does not answer. */
export async function readSuppression (
  bus: Bus,
  account: string,
  address: string
): Promise<{ now: SuppressionState, last: SuppressionFact | null, seq: number }> {
  const recorded = await getFact(bus, 'CONTROL', {
    last_by_subj: subjects.suppression(account, suppressionHash(address))
  }, 'leader')
  const last = (recorded?.fact ?? null) as SuppressionFact | null
  return { now: suppressionOf(last), last, seq: recorded?.seq ?? 0 }
}
