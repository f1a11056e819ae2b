import { domainOf, parseAddress } from '../address.ts'
import { Refusal } from '../define.ts'
import { SANDBOX_DOMAIN } from '../key/decide.ts'
import type { StandingReason, SuppressionAdded, SuppressionRemoved, SuppressionReason } from './facts.ts'

export type SuppressionFact = SuppressionAdded | SuppressionRemoved

/** An address of an account. */
export interface SuppressionState {
  /** As it was first given; null when it has been erased, and where nothing stands. */
  address: string | null
  /** Why it gets no mail, oldest first; empty = it may. */
  standing: StandingReason[]
}

/** What the last fact of the address's subject says; null = there is none. Nothing to fold: the last one tells all. */
export function suppressionOf (last: SuppressionFact | null): SuppressionState {
  if (last === null || last.type === 'suppression.removed') return { address: null, standing: [] }
  const { address, standing } = last.data
  return { address, standing }
}

/** A normalised address as suppressions compare it: in lower case, the local part too, and in NFC. RFC 5321 2.4 lets a
 *  host tell `Ada@` from `ada@`; no provider does, and a recipient who has unsubscribed must not get mail because a
 *  sender spells the name otherwise. An accent may be written in two ways that look the same. Source: RFC 6532 3.1. */
export function foldAddress (address: string): string {
  return address.toLowerCase().normalize('NFC')
}

/** Test addresses run the whole pipeline again and again: nothing that becomes of their mail stands against them. */
export function isSandbox (address: string): boolean {
  return domainOf(address) === SANDBOX_DOMAIN
}

const SANDBOX_SUPPRESSED: readonly StandingReason[] = [{
  reason: 'manual',
  email: null,
  since: '2026-11-21T00:00:00.000Z'
}]

/** What stands against a test address: something against `suppressed@`, with any label, nothing against the others. */
export function sandboxStanding (address: string): readonly StandingReason[] {
  return /^suppressed(\+|@)/i.test(address) ? SANDBOX_SUPPRESSED : []
}

/** The normalised address. */
export function mailAddress (text: string): string | Refusal {
  return parseAddress(text) ?? new Refusal('invalid_address', 'address must be an email address.')
}

/** The normalised address, when it can be suppressed. */
export function suppressible (text: string): string | Refusal {
  const address = mailAddress(text)
  if (address instanceof Refusal) return address
  return isSandbox(address)
    ? new Refusal('sandbox_address', `address must not be in ${SANDBOX_DOMAIN}: test addresses are never suppressed.`)
    : address
}

/** All that stands once `entry` does; null when its reason stands already, whose first time and email then stay. */
export function withReason (standing: readonly StandingReason[], entry: StandingReason): StandingReason[] | null {
  return standing.some(({ reason }) => reason === entry.reason) ? null : [...standing, entry]
}

/** Which of the reasons holds back a mail, or null. `unsubscribe` = its recipients may unsubscribe. */
export function heldBack (standing: readonly StandingReason[], unsubscribe: boolean): SuppressionReason | null {
  return standing.find(({ reason }) => reason !== 'unsubscribe' || unsubscribe)?.reason ?? null
}
