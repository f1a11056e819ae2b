import { Refusal } from '../define.ts'
import type { Key } from '../directory.ts'
import type { LimitClass, Scope } from './facts.ts'

/** Requests a minute of each class, where no operator said otherwise. Source: spec section 8. */
export const DEFAULT_LIMITS: Record<LimitClass, number> = { 'emails:send': 100, 'emails:list': 300, 'templates:create': 60, other: 60 }

export function limitOf (key: Key, limitClass: LimitClass): number {
  return key.limits[limitClass] ?? DEFAULT_LIMITS[limitClass]
}

export function isLive (key: Key, nowMs: number): boolean {
  return key.expiresMs === null || key.expiresMs > nowMs
}

/** Spec 5: the scope must include the action. */
export function mayDo (key: Key, scope: Scope): boolean {
  return key.scopes.includes('full') || key.scopes.includes(scope)
}

/** Spec 4.1 rule 1: `from` must be on a domain linked to the key, and the domain must be its account's (or everybody's sandbox). */
export function maySendFrom (key: Key, domain: string, owner: string | undefined): boolean {
  const owned = domain === SANDBOX_DOMAIN || owner === key.account
  return owned && (key.domains.includes('*') || key.domains.includes(domain))
}

/** The built-in domain every account may send from and to. */
export const SANDBOX_DOMAIN = 'sandbox.jetpost.test'

/** A name between 1 and 200 characters with something to see in it. */
export function nameFault (name: string): Refusal | null {
  return name.trim() === '' || name.length > 200 ? new Refusal('invalid_name', 'A name has 1 to 200 characters.') : null
}
