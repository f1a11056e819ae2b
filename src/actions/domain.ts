import { parseDomain } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import { DomainAdded, DomainRemoved } from '#streams/domain/facts.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { newId } from '#src/base/id.ts'
import type { Asker, Desk } from './desk.ts'
import { stamp } from './ledger.ts'

/** Makes a domain the account's. A name belongs to one account: refused when it is another's, the same again when it is this one's.
 *  Throws Conflict when somebody else took the name at the same moment. */
export async function addDomain (desk: Desk, asker: Asker, text: string): Promise<{ domain: string, name: string, seq: number } | Refusal> {
  const name = parseDomain(text)
  if (name === null || name === SANDBOX_DOMAIN) return new Refusal('invalid_domain', `${JSON.stringify(text)} is not a domain one can send from.`)
  const subject = subjects.domain(name)
  const seq = desk.directory.now.versions.get(subject) ?? 0
  const owned = desk.directory.now.domains.get(name)
  if (owned?.account === asker.account) return { domain: owned.id, name, seq }
  if (owned !== undefined) return new Refusal('domain_taken', `${name} belongs to another account.`)
  const nowMs = desk.ledger.clock.nowMs()
  const domain = newId('dom', nowMs)
  const fact = stamp(DomainAdded, { ...asker, causation: null }, { domain, name }, nowMs)
  const [added] = await desk.ledger.control.append([{ subject, fact, expectedSeq: seq }])
  return { domain, name, seq: added! }
}

/** Gives a domain up; mail from it is refused from then on. Throws Conflict when it changed hands at the same moment. */
export async function removeDomain (desk: Desk, asker: Asker, name: string): Promise<{ seq: number } | Refusal> {
  const owned = desk.directory.now.domains.get(name)
  if (owned === undefined || owned.account !== asker.account) return new Refusal('not_found', `There is no domain ${name}.`)
  const fact = stamp(DomainRemoved, { ...asker, causation: null }, { domain: owned.id, name }, desk.ledger.clock.nowMs())
  const subject = subjects.domain(name)
  const [seq] = await desk.ledger.control.append([{ subject, fact, expectedSeq: desk.directory.now.versions.get(subject)! }])
  return { seq: seq! }
}
