import { generateKeyPair, type KeyObject, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { Refusal } from '#streams/define.ts'
import { domainKey, type DomainEntry } from '#streams/directory.ts'
import {
  addFault,
  decideAdd,
  decideChange,
  decideCheck,
  decideRemoval,
  decideRotation,
  type DnsLook,
  type DomainDecision,
  ownableName,
  rotationFault
} from '#streams/domain/decide.ts'
import type { DkimKey } from '#streams/domain/facts.ts'
import { isSpf, policyNames, policyOf, type WantedRecord, wantedRecords } from '#streams/domain/records.ts'
import type { SendDefaults } from '#streams/email/defaults.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { Vault } from '#src/base/secret.ts'
import { type Dns, DnsUnavailable } from '#src/dns/resolve.ts'
import { countOf } from './directory.ts'
import { askedBy } from './fact-log.ts'
import { type CommandServices, handleCommand, type Handled } from './handle-command.ts'
import type { Asker, Services, ServiceSettings } from './services.ts'

const generate = promisify(generateKeyPair)

/** New keys for a domain, `domain` being its id: RSA of 2048 bits, which RFC 8301 asks for and every receiver reads,
 *  and Ed25519 (RFC 8463) for those that read it. Their selectors tell the day, and a random part keeps them from ever
 *  coming again: a receiver may still know an old key by its name. */
export async function newDkimKeys (vault: Vault, domain: string, nowMs: number): Promise<DkimKey[]> {
  const [rsa, ed25519] = await Promise.all([generate('rsa', { modulusLength: 2048 }), generate('ed25519')])
  const name = `jp${timestamp(nowMs).slice(0, 10).replaceAll('-', '')}${randomBytes(3).toString('hex')}`
  const sealed = (key: KeyObject) => vault.seal(key.export({ type: 'pkcs8', format: 'pem' }) as string, domain)
  return [
    {
      algorithm: 'rsa-sha256',
      selector: `${name}-rsa`,
      publicKey: spki(rsa.publicKey).toString('base64'),
      sealedKey: sealed(rsa.privateKey)
    },
    {
      algorithm: 'ed25519-sha256',
      selector: `${name}-ed25519`,
      publicKey: rawOf(ed25519.publicKey),
      sealedKey: sealed(ed25519.privateKey)
    }
  ]
}

const spki = (key: KeyObject): Buffer => key.export({ type: 'spki', format: 'der' })

/** The 32 bytes alone, which end its DER. Source: RFC 8463 4. */
const rawOf = (key: KeyObject): string => spki(key).subarray(-32).toString('base64')

/** What the actions here need. */
export type DomainServices = CommandServices & Pick<Services, 'vault' | 'dns' | 'settings'>

/** Makes a domain the account's, with new DKIM keys: a claim, which DNS proves. `isNew: false` when it has it already;
 *  another account's claim of the name is nothing to it. Throws LogUnavailable or Conflict. */
export async function addDomain (
  services: DomainServices,
  asker: Asker,
  text: string
): Promise<Handled<'domain'> & { isNew: boolean } | Refusal> {
  const name = ownableName(text)
  if (name instanceof Refusal) return name
  const { domains } = services.directory.now
  const key = domainKey(asker.account, name)
  const owned = domains.get(key)
  if (owned !== undefined) return { domain: owned, seq: 0, isNew: false }
  const faultOf = (owned: DomainEntry | undefined) => addFault(owned, countOf(domains.values(), asker.account))
  // Before the work of making keys, and again by the log as it is then.
  const fault = faultOf(owned)
  if (fault !== null) return fault
  const nowMs = services.factLog.clock.nowMs()
  const id = newId('dom', nowMs)
  const added = { id, name, dkim: await newDkimKeys(services.vault, id, nowMs) }
  const handled = await handleCommand(
    services,
    'domain',
    key,
    askedBy(asker),
    owned => faultOf(owned) ?? decideAdd(owned, added)
  )
  return handled instanceof Refusal ? handled : { ...handled, isNew: handled.seq > 0 }
}

/** Sets what the domain says about mail that does not say it itself; what is left out stays. Throws LogUnavailable or
 *  Conflict. */
export async function changeDomain (
  services: DomainServices,
  asker: Asker,
  domain: DomainEntry,
  changes: Partial<SendDefaults>
): Promise<Handled<'domain'> | Refusal> {
  return await change(services, asker, domain, current => decideChange(current, changes))
}

/** Gives a domain up; mail from it is refused from then on. Throws LogUnavailable or Conflict. */
export async function removeDomain (
  services: DomainServices,
  asker: Asker,
  domain: DomainEntry
): Promise<Handled<'domain'> | Refusal> {
  return await change(services, asker, domain, decideRemoval)
}

/** Makes the keys that are to sign next; those that sign do so until a look finds the new ones in DNS. Refused while a
 *  rotation is under way. Throws LogUnavailable or Conflict. */
export async function rotateDomainKeys (
  services: DomainServices,
  asker: Asker,
  domain: DomainEntry
): Promise<Handled<'domain'> | Refusal> {
  // Before the work of making keys, and again by the log as it is then.
  const fault = rotationFault(domain)
  if (fault !== null) return fault
  const keys = await newDkimKeys(services.vault, domain.id, services.factLog.clock.nowMs())
  return await change(services, asker, domain, current => decideRotation(current, keys))
}

/** Looks at the domain's records in DNS and keeps what is new, within 5 s and the append; keys in rotation take their
 *  turn by it. Safe to repeat, and on many nodes at once. Throws DnsUnavailable when DNS does not say, LogUnavailable
 *  or Conflict. */
export async function checkDomain (
  services: DomainServices,
  asker: Asker,
  domain: DomainEntry
): Promise<Handled<'domain'> | Refusal> {
  const { bounceDomain } = services.settings
  const senderName = senderNameOf(services.settings)
  const look = await lookAt(services.dns, domain.name, wantedRecords(domain, bounceDomain, senderName))
  return await change(
    services,
    asker,
    domain,
    (current, nowMs) => decideCheck(current, look, bounceDomain, nowMs, senderName)
  )
}

/** Our own name where it sends, in direct mode; else null: SPF is the relay's affair. */
export function senderNameOf ({ smtpUrl, hostname }: Pick<ServiceSettings, 'smtpUrl' | 'hostname'>): string | null {
  return smtpUrl === 'direct:' ? hostname : null
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
    case 'spf':
      return (await dns.txt(record.name)).filter(isSpf)
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

/** By the domain as the log has it now; a refusal when it is gone. */
async function change (
  services: DomainServices,
  asker: Asker,
  { id, account, name }: DomainEntry,
  decide: (current: DomainEntry, nowMs: number) => DomainDecision[] | Refusal
): Promise<Handled<'domain'> | Refusal> {
  return await handleCommand(
    services,
    'domain',
    domainKey(account, name),
    askedBy(asker),
    (current, nowMs) =>
      current?.id === id ? decide(current, nowMs) : new Refusal('not_found', `There is no domain ${name}.`)
  )
}
