import { Refusal, type Fact } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { afterLook, countFault, keyTurn, ownableName, rotationFault, type DnsLook } from '#streams/domain/decide.ts'
import {
  DomainAdded,
  DomainChanged,
  DomainChecked,
  DomainKeysRetired,
  DomainKeysSwitched,
  DomainRemoved,
  DomainRotationStarted
} from '#streams/domain/facts.ts'
import { firstKeys, turned, withNext, type KeyTurn } from '#streams/domain/keys.ts'
import { policyNames, policyOf, wantedRecords, type WantedRecord } from '#streams/domain/records.ts'
import { NO_DEFAULTS, type SendDefaults } from '#streams/email/defaults.ts'
import { subjects } from '#streams/subjects.ts'
import { newId } from '#src/base/id.ts'
import { DnsUnavailable, type Dns } from '#src/dns/resolve.ts'
import type { Asker, Services } from './services.ts'
import { countOf } from './directory.ts'
import { newDkimKeys } from './dkim-key.ts'
import { stamp, type FactCause } from './appenders.ts'
import { retryOnConflictOf } from './retry-on-conflict.ts'

/** A domain as it is after an action. `seq` is in CONTROL: a node whose directory has reached it knows. */
export interface DomainNow {
  domain: DomainEntry
  seq: number
}

/** What the actions here need. */
export type DomainServices = Pick<Services, 'appenders' | 'directory' | 'vault' | 'dns' | 'settings'>

/** Makes a domain the account's, with new DKIM keys. A name belongs to one account: refused when it is another's,
 *  `isNew: false` when it is this one's already. Throws LogUnavailable or Conflict. */
export async function addDomain (
  services: DomainServices,
  asker: Asker,
  text: string
): Promise<DomainNow & { isNew: boolean } | Refusal> {
  const name = ownableName(text)
  if (name instanceof Refusal) return name
  return await retryOnConflictOf(services.directory, async () => {
    const { domains } = services.directory.now
    const owned = domains.get(name)
    if (owned?.account === asker.account) return { domain: owned, seq: versionOf(services, name), isNew: false }
    if (owned !== undefined) return new Refusal('domain_taken', `${name} belongs to another account.`)
    return countFault(countOf(domains.values(), asker.account)) ??
      { ...await register(services, asker, name), isNew: true }
  })
}

async function register (services: DomainServices, asker: Asker, name: string): Promise<DomainNow> {
  const expectedSeq = versionOf(services, name)
  const nowMs = services.appenders.clock.nowMs()
  const id = newId('dom', nowMs)
  const dkim = await newDkimKeys(services.vault, id, nowMs)
  const fact = stamp(DomainAdded, { ...asker, causation: null }, { domain: id, name, dkim }, nowMs)
  const [seq] = await services.appenders.append([{ fact, expectedSeq }])
  const unseen = { status: 'pending' as const, records: [], failingSince: null, checkedAt: null }
  return {
    domain: {
      id,
      account: asker.account,
      name,
      dkim: firstKeys(dkim),
      defaults: NO_DEFAULTS,
      ...unseen,
      createdAt: fact.time
    },
    seq: seq!
  }
}

/** Sets what the domain says about mail that does not say it itself; what is left out stays. Throws LogUnavailable or
 *  Conflict. */
export async function changeDomain (
  services: DomainServices,
  asker: Asker,
  domain: DomainEntry,
  changes: Partial<SendDefaults>
): Promise<DomainNow | Refusal> {
  return await change(services, domain, (current, nowMs) => {
    const defaults = { ...current.defaults, ...changes }
    const names = Object.keys(defaults) as Array<keyof SendDefaults>
    if (names.every(name => defaults[name] === current.defaults[name])) return null
    const { id, name } = current
    return {
      facts: [stamp(DomainChanged, { ...asker, causation: null }, { domain: id, name, defaults }, nowMs)],
      after: { ...current, defaults }
    }
  })
}

/** Gives a domain up; mail from it is refused from then on. Throws LogUnavailable or Conflict. */
export async function removeDomain (
  services: DomainServices,
  asker: Asker,
  domain: DomainEntry
): Promise<DomainNow | Refusal> {
  return await change(services, domain, (current, nowMs) => {
    const { id, name } = current
    return { facts: [stamp(DomainRemoved, { ...asker, causation: null }, { domain: id, name }, nowMs)], after: current }
  })
}

/** Makes the keys that are to sign next; those that sign do so until a look finds the new ones in DNS. Refused while a
 *  rotation is under way. Throws LogUnavailable or Conflict. */
export async function rotateDomainKeys (
  services: DomainServices,
  asker: Asker,
  domain: DomainEntry
): Promise<DomainNow | Refusal> {
  // Before the work of making keys, and again by the log as it is then.
  const fault = rotationFault(domain)
  if (fault !== null) return fault
  const keys = await newDkimKeys(services.vault, domain.id, services.appenders.clock.nowMs())
  return await change(services, domain, (current, nowMs) => {
    const fault = rotationFault(current)
    if (fault !== null) return fault
    const { id, name } = current
    const fact = stamp(DomainRotationStarted, { ...asker, causation: null }, { domain: id, name, dkim: keys }, nowMs)
    return { facts: [fact], after: { ...current, dkim: withNext(current.dkim, keys, fact.time) } }
  })
}

/** Looks at the domain's records in DNS and keeps what is new, within 5 s and the append; keys in rotation take their
 *  turn by it. Safe to repeat, and on many nodes at once. Throws DnsUnavailable when DNS does not say, LogUnavailable
 *  or Conflict. */
export async function checkDomain (
  services: DomainServices,
  asker: Asker,
  domain: DomainEntry
): Promise<DomainNow | Refusal> {
  const look = await lookAt(services.dns, domain.name, wantedRecords(domain, services.settings.bounceDomain))
  const cause = { ...asker, causation: null }
  return await change(services, domain, (current, nowMs) => {
    const turn = keyTurn(current, look, nowMs)
    const after = turn === null ? current : { ...current, dkim: turned(current.dkim, turn) }
    const checked = afterLook(after, wantedRecords(after, services.settings.bounceDomain), look, nowMs)
    const facts = turn === null ? [] : [turnFact(cause, current, turn, nowMs)]
    if (checked === null) return { facts, after }
    const { id, name } = current
    const fact = stamp(DomainChecked, cause, { domain: id, name, ...checked }, nowMs)
    return { facts: [...facts, fact], after: { ...after, ...checked, checkedAt: fact.time } }
  })
}

function turnFact (cause: FactCause, { id: domain, name }: DomainEntry, turn: KeyTurn, nowMs: number): Fact {
  if (turn.name === 'retired') return stamp(DomainKeysRetired, cause, { domain, name }, nowMs)
  return stamp(DomainKeysSwitched, cause, { domain, name, previousUntil: turn.previousUntil }, nowMs)
}

async function lookAt (dns: Dns, name: string, wanted: WantedRecord[]): Promise<DnsLook> {
  const answers = await Promise.all(wanted.map(async record => {
    const found = record.required ? await ask(dns, name, record) : await unlessUnsaid(ask(dns, name, record))
    return [record.name, found ?? undefined] as const
  }))
  return Object.fromEntries(answers)
}

async function ask (dns: Dns, name: string, record: WantedRecord): Promise<string[] | null> {
  switch (record.purpose) {
    case 'dkim':
      return await dns.txt(record.name)
    case 'return_path':
      return [await dns.cname(record.name)].filter(target => target !== null)
    case 'dmarc':
      return policyOf(await Promise.all(policyNames(name).map(at => unlessUnsaid(dns.txt(at)))))
  }
}

/** null when DNS does not say. */
async function unlessUnsaid<T> (answer: Promise<T>): Promise<T | null> {
  return await answer.catch(error => {
    if (error instanceof DnsUnavailable) return null
    throw error
  })
}

/** The facts that a decision appends, and the domain after them. */
interface DomainChange {
  facts: Fact[]
  after: DomainEntry
}

/** Appends what is decided on the domain as the log has it now, null = nothing; a refusal when it is gone, or
 *  another's since. */
async function change (
  services: DomainServices,
  { id, name }: DomainEntry,
  decide: (current: DomainEntry, nowMs: number) => DomainChange | Refusal | null
): Promise<DomainNow | Refusal> {
  return await retryOnConflictOf(services.directory, async () => {
    const current = services.directory.now.domains.get(name)
    if (current?.id !== id) return new Refusal('not_found', `There is no domain ${name}.`)
    const expectedSeq = versionOf(services, name)
    const decided = decide(current, services.appenders.clock.nowMs())
    if (decided instanceof Refusal) return decided
    if (decided === null || decided.facts.length === 0) return { domain: current, seq: expectedSeq }
    // All or none: what the first expects holds for those behind it.
    const seqs = await services.appenders.append(
      decided.facts.map((fact, i) => (i === 0 ? { fact, expectedSeq } : { fact }))
    )
    return { domain: decided.after, seq: seqs.at(-1)! }
  })
}

function versionOf ({ directory }: DomainServices, name: string): number {
  return directory.now.versions.get(subjects.domain(name)) ?? 0
}
