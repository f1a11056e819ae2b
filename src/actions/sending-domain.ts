import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { domainOf } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import { domainKey, type DomainEntry, type Principal } from '#streams/directory.ts'
import { maySendFrom } from '#streams/key/decide.ts'
import type { Services } from './services.ts'

const CATCH_UP_MS = 1000

/** The domain that mail from each address is sent from, the built-in sandbox being in no directory, or why it is not
 *  linked to the key (`domain_not_linked`), with the step that links it. A domain may have been added on another node a
 *  moment ago: the directory catches up before anything is refused. Source: spec 4.1 rule 1. */
export async function sendingDomains (
  { directory }: Pick<Services, 'directory'>,
  principal: Principal,
  addresses: readonly string[]
): Promise<Array<DomainEntry | 'sandbox' | Refusal>> {
  const found = () => addresses.map(address => sendingDomainOf(directory, principal, address))
  const domains = found()
  if (!domains.some(domain => domain instanceof Refusal)) return domains
  await directory.catchUp(CATCH_UP_MS)
  return found()
}

/** As this process knows it. */
export function sendingDomainOf (
  directory: Services['directory'],
  principal: Principal,
  address: string
): DomainEntry | 'sandbox' | Refusal {
  const name = domainOf(address)
  const domain = directory.now.domains.get(domainKey(principal.account, name))
  if (maySendFrom(principal, name, domain?.account)) return domain ?? 'sandbox'
  const must = `from must be on a domain that is linked to the key: ${name} is not.`
  return new Refusal('domain_not_linked', `${must} ${stepToLink(principal, name)}`)
}

/** A key may send from a domain that it names, or from all, once the account has the domain. */
function stepToLink ({ id, account, domains }: Principal, name: string): string {
  if (!domains.includes('*') && !domains.includes(name)) return `Link it: PATCH /api/keys/${id} with domains.`
  const option = account === FIRST_ACCOUNT ? '' : ` --account ${account}`
  return `Add the domain: npx jetpost domains add ${name}${option}, or POST /api/domains.`
}
