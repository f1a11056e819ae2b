import { Refusal, type Fact } from '#streams/define.ts'
import type { Domain } from '#streams/directory.ts'
import { afterLook, countFault, ownableName, type Look } from '#streams/domain/decide.ts'
import { DomainAdded, DomainChanged, DomainChecked, DomainRemoved } from '#streams/domain/facts.ts'
import { policyNames, policyOf, wantedRecords, type WantedRecord } from '#streams/domain/records.ts'
import { NO_DEFAULTS, type SendDefaults } from '#streams/email/defaults.ts'
import { subjects } from '#streams/subjects.ts'
import { newId } from '#src/base/id.ts'
import { DnsUnavailable, type Dns } from '#src/dns/resolve.ts'
import type { Asker, Desk } from './desk.ts'
import { countOf } from './directory.ts'
import { newDkimKey } from './dkim-key.ts'
import { stamp } from './ledger.ts'
import { amongRivalsOf } from './rivals.ts'

/** A domain as it is after an action. `seq` is in CONTROL: a node whose directory has reached it knows. */
export interface DomainNow { domain: Domain, seq: number }

/** What the actions here need. */
export type DomainDesk = Pick<Desk, 'ledger' | 'directory' | 'vault' | 'dns' | 'settings'>

/** Makes a domain the account's, with a new DKIM key. A name belongs to one account: refused when it is another's, `isNew: false` when it is this one's
 *  already. Throws LogUnavailable or Conflict. */
export async function addDomain (desk: DomainDesk, asker: Asker, text: string): Promise<DomainNow & { isNew: boolean } | Refusal> {
  const name = ownableName(text)
  if (name instanceof Refusal) return name
  return await amongRivalsOf(desk.directory, async () => {
    const { domains } = desk.directory.now
    const owned = domains.get(name)
    if (owned?.account === asker.account) return { domain: owned, seq: versionOf(desk, name), isNew: false }
    if (owned !== undefined) return new Refusal('domain_taken', `${name} belongs to another account.`)
    return countFault(countOf(domains.values(), asker.account)) ?? { ...await register(desk, asker, name), isNew: true }
  })
}

async function register (desk: DomainDesk, asker: Asker, name: string): Promise<DomainNow> {
  const expectedSeq = versionOf(desk, name)
  const nowMs = desk.ledger.clock.nowMs()
  const id = newId('dom', nowMs)
  const dkim = await newDkimKey(desk.vault, id, nowMs)
  const fact = stamp(DomainAdded, { ...asker, causation: null }, { domain: id, name, dkim }, nowMs)
  const [seq] = await desk.ledger.control.append([{ subject: subjects.domain(name), fact, expectedSeq }])
  const unseen = { status: 'pending' as const, records: [], failingSince: null, checkedAt: null }
  return { domain: { id, account: asker.account, name, dkim, defaults: NO_DEFAULTS, ...unseen, createdAt: fact.time }, seq: seq! }
}

/** Sets what the domain says about mail that does not say it itself; what is left out stays. Throws LogUnavailable or Conflict. */
export async function changeDomain (desk: DomainDesk, asker: Asker, domain: Domain, changes: Partial<SendDefaults>): Promise<DomainNow | Refusal> {
  return await change(desk, domain, (current, nowMs) => {
    const defaults = { ...current.defaults, ...changes }
    const names = Object.keys(defaults) as Array<keyof SendDefaults>
    if (names.every(name => defaults[name] === current.defaults[name])) return null
    const { id, name } = current
    return { fact: stamp(DomainChanged, { ...asker, causation: null }, { domain: id, name, defaults }, nowMs), after: { ...current, defaults } }
  })
}

/** Gives a domain up; mail from it is refused from then on. Throws LogUnavailable or Conflict. */
export async function removeDomain (desk: DomainDesk, asker: Asker, domain: Domain): Promise<DomainNow | Refusal> {
  return await change(desk, domain, (current, nowMs) => {
    const { id, name } = current
    return { fact: stamp(DomainRemoved, { ...asker, causation: null }, { domain: id, name }, nowMs), after: current }
  })
}

/** Looks at the domain's records in DNS and keeps what is new, within 5 s and the append. Safe to repeat, and on many nodes at once.
 *  Throws DnsUnavailable when DNS does not say, LogUnavailable or Conflict. */
export async function checkDomain (desk: DomainDesk, asker: Asker, domain: Domain): Promise<DomainNow | Refusal> {
  const wanted = wantedRecords(domain, desk.settings.bounceDomain)
  const look = await lookAt(desk.dns, domain.name, wanted)
  return await change(desk, domain, (current, nowMs) => {
    const checked = afterLook(current, wanted, look, nowMs)
    if (checked === null) return null
    const { id, name } = current
    const fact = stamp(DomainChecked, { ...asker, causation: null }, { domain: id, name, ...checked }, nowMs)
    return { fact, after: { ...current, ...checked, checkedAt: fact.time } }
  })
}

async function lookAt (dns: Dns, name: string, wanted: WantedRecord[]): Promise<Look> {
  const answers = await Promise.all(wanted.map(async record => {
    const found = record.required ? await ask(dns, name, record) : await unlessUnsaid(ask(dns, name, record))
    return [record.purpose, found ?? undefined] as const
  }))
  return Object.fromEntries(answers)
}

async function ask (dns: Dns, name: string, record: WantedRecord): Promise<string[] | null> {
  switch (record.purpose) {
    case 'dkim': return await dns.txt(record.name)
    case 'return_path': return [await dns.cname(record.name)].filter(target => target !== null)
    case 'dmarc': return policyOf(await Promise.all(policyNames(name).map(at => unlessUnsaid(dns.txt(at)))))
  }
}

/** null when DNS does not say. */
async function unlessUnsaid<T> (answer: Promise<T>): Promise<T | null> {
  return await answer.catch(error => {
    if (error instanceof DnsUnavailable) return null
    throw error
  })
}

/** Appends what is to be said of the domain as the log has it now, null = nothing; a refusal when it is gone, or another's since. */
async function change (
  desk: DomainDesk, { id, name }: Domain, say: (current: Domain, nowMs: number) => { fact: Fact, after: Domain } | null
): Promise<DomainNow | Refusal> {
  return await amongRivalsOf(desk.directory, async () => {
    const current = desk.directory.now.domains.get(name)
    if (current?.id !== id) return new Refusal('not_found', `There is no domain ${name}.`)
    const expectedSeq = versionOf(desk, name)
    const said = say(current, desk.ledger.clock.nowMs())
    if (said === null) return { domain: current, seq: expectedSeq }
    const [seq] = await desk.ledger.control.append([{ subject: subjects.domain(name), fact: said.fact, expectedSeq }])
    return { domain: said.after, seq: seq! }
  })
}

function versionOf ({ directory }: DomainDesk, name: string): number {
  return directory.now.versions.get(subjects.domain(name)) ?? 0
}
