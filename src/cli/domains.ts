import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { parseDomain } from '#streams/address.ts'
import { domainKey, type DomainEntry } from '#streams/directory.ts'
import { addDomain, checkDomain, removeDomain, rotateDomainKeys } from '#src/actions/domain.ts'
import type { Asker, Services } from '#src/actions/services.ts'
import { Complaint } from '#src/base/errors.ts'
import { DnsUnavailable } from '#src/dns/resolve.ts'
import { domainAnswer } from '#src/servers/api/domains.ts'
import { misused, noVerb, readArgs, type CliCommand } from './command.ts'
import { withServices, granted, knownAccount } from './open-services.ts'
import { paintState } from './style.ts'
import { print } from './table.ts'

export const domains: CliCommand = {
  usage: `jetpost domains [list] [--account <id>] [--json]
jetpost domains add|show|verify|rotate|remove <name> [--account <id>] [--json]`,
  details: `  add, show  the DNS records that the domain needs, as a zone file takes them
  verify     asks the DNS for them now
  rotate     makes a new DKIM key, which signs once its record is published
  --account  defaults to the first account`,
  async run (args) {
    const { positionals: [verb = 'list', name, ...more], values } = readArgs(args, {
      account: { type: 'string', default: FIRST_ACCOUNT }
    })
    if (verb === 'list' && name === undefined) return await list(values.account, values.json)
    const act = verbs.get(verb)
    if (act === undefined && verb !== 'list') throw noVerb(domains, 'domains', verb, ['list', ...verbs.keys()])
    if (act === undefined || name === undefined || more.length > 0) throw misused(domains)
    await withServices(async (services, by) => {
      const domain = await act(services, { account: knownAccount(services, values.account), ...by }, name)
      if (verb === 'remove') return print([{ id: domain.id, name: domain.name, removed: true }], values.json)
      show(domainAnswer(services, domain), values.json)
    })
  }
}

type DomainAction = (services: Services, asker: Asker, name: string) => Promise<DomainEntry>

/** Each resolves to its domain. */
const verbs = new Map<string, DomainAction>([
  ['add', async (services, asker, name) => granted(await addDomain(services, asker, name)).domain],
  ['show', async (services, { account }, name) => owned(services, account, name)],
  [
    'verify',
    async (services, asker, name) => granted(await check(services, asker, owned(services, asker.account, name))).domain
  ],
  [
    'rotate',
    async (services, asker, name) =>
      granted(await rotateDomainKeys(services, asker, owned(services, asker.account, name))).domain
  ],
  [
    'remove',
    async (services, asker, name) =>
      granted(await removeDomain(services, asker, owned(services, asker.account, name))).domain
  ]
])

async function check (services: Services, asker: Asker, domain: DomainEntry) {
  return await checkDomain(services, asker, domain).catch(error => {
    throw error instanceof DnsUnavailable ? new Complaint(`${error.message}. Nothing has changed.`) : error
  })
}

function owned (services: Services, account: string, text: string): DomainEntry {
  const domain = services.directory.now.domains.get(domainKey(account, parseDomain(text) ?? ''))
  if (domain === undefined) throw new Complaint(`There is no domain ${text}.`)
  return domain
}

async function list (account: string, json: boolean): Promise<void> {
  const rows = await withServices(async services => {
    knownAccount(services, account)
    return [...services.directory.now.domains.values()].filter(domain => domain.account === account).map(domain =>
      domainAnswer(services, domain)
    )
  })
  print(json ? rows : rows.map(({ id, name, status, created_at }) => ({ id, name, status, created_at })), json)
}

type DomainAnswer = ReturnType<typeof domainAnswer>
type RecordAnswer = DomainAnswer['records'][number]

/** The records as a zone file takes them; all else is a comment there, also a record that may be removed. */
function show (domain: DomainAnswer, json: boolean): void {
  if (json) return print([domain], true)
  const { name, status, records, failing_since: failingSince } = domain
  console.log(
    `; ${name}: ${paintState(status)}${failingSince === null ? '' : `, its records are wrong since ${failingSince}`}`
  )
  const width = Math.max(...records.map(record => record.name.length)) + 1
  for (const record of records) {
    console.log(`; ${record.purpose} (${useOf(record)}): ${paintState(record.state)}`)
    for (const text of record.state === 'wrong' ? record.found : []) console.log(`;   found ${JSON.stringify(text)}`)
    const line = `${`${record.name}.`.padEnd(width)}  IN  ${record.type.padEnd(5)}  ${zoneValue(record)}`
    console.log(record.stage === 'removable' ? `; ${line}` : line)
  }
}

function useOf ({ stage, required, removable_at: removableAt }: RecordAnswer): string {
  switch (stage) {
    case 'current':
      return required ? 'required' : 'advice'
    case 'next':
      return 'a new key: signs once its record is published'
    case 'previous':
      return `an old key: keep it until ${removableAt}`
    case 'removable':
      return 'an old key: may be removed'
  }
}

/** A TXT in strings of at most 255 octets. Source: RFC 1035 3.3, 5.1. */
function zoneValue ({ type, value }: RecordAnswer): string {
  if (type === 'CNAME') return `${value}.`
  return value.match(/.{1,255}/g)!.map(part => `"${part}"`).join(' ')
}
