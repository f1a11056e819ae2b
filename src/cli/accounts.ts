import { quotaFault } from '#streams/account/decide.ts'
import { SUSPENSION_REASONS } from '#streams/account/facts.ts'
import type { AccountEntry } from '#streams/directory.ts'
import { LIMIT_CLASSES } from '#streams/key/facts.ts'
import { changeAccount, createAccount, resumeAccount, suspendAccount } from '#src/actions/account.ts'
import { misused, noVerb, readArgs, takeOnly, usageError, type CliCommand } from './command.ts'
import { limitOfPair, pairsOf } from './input.ts'
import { withServices, granted } from './open-services.ts'
import { print } from './table.ts'

const VERBS = ['list', 'create', 'limit', 'quota', 'suspend', 'resume']

export const accounts: CliCommand = {
  usage: `jetpost accounts [list] [--json]
jetpost accounts create <name> [--json]
jetpost accounts limit <account> <class>=<per minute>… [--json]
jetpost accounts quota <account> <recipients a day|none> [--json]
jetpost accounts suspend <account> --reason <class> [--note <text>] [--json]
jetpost accounts resume <account> [--json]`,
  details: `  Each account has its own keys, domains, mail and webhooks.
  limit     sets requests a minute of all its keys together, by class: ${LIMIT_CLASSES.join(', ')}
  quota     sets how many recipients its mail may have on a day (UTC)
  suspend   lets nothing go out: new mail is refused, what was accepted waits, reads and webhooks go on
  resume    lets it send again; what waits goes out within five minutes
  --reason  ${SUSPENSION_REASONS.join(', ')}: its clients are told so
  --note    for operators only`,
  async run (args) {
    const { positionals: [verb = 'list', ...rest], values, given } = readArgs(args, {
      reason: { type: 'string' },
      note: { type: 'string' }
    })
    const { json } = values
    if (verb !== 'suspend') takeOnly(given, ['json'], `accounts ${verb}`)
    const [name, ...more] = rest
    if (verb === 'list' && name === undefined) return await list(json)
    if (!VERBS.includes(verb)) throw noVerb(accounts, 'accounts', verb, VERBS)
    if (verb === 'create' && name !== undefined && more.length === 0) return await create(name, json)
    if (verb === 'limit' && name !== undefined && more.length > 0) return await limit(name, more, json)
    if (verb === 'quota' && name !== undefined && more.length === 1) return await quota(name, more[0]!, json)
    if (verb === 'suspend' && name !== undefined && more.length === 0) return await suspend(name, values)
    if (verb === 'resume' && name !== undefined && more.length === 0) return await resume(name, json)
    throw misused(accounts)
  }
}

async function list (json: boolean): Promise<void> {
  const all = await withServices(async services => [...services.directory.now.accounts.values()])
  print(all.map(account => rowOf(account, json)), json)
}

function rowOf ({ id, name, limits, recipientsPerDay, suspended, createdAt }: AccountEntry, json: boolean) {
  return {
    id,
    name,
    limits: json ? limits : pairsOf(limits),
    recipients_per_day: json ? recipientsPerDay : recipientsPerDay ?? '',
    suspended: json ? suspended : suspended?.reason ?? '',
    created_at: createdAt
  }
}

async function create (name: string, json: boolean): Promise<void> {
  const made = await withServices(async (services, by) => granted(await createAccount(services, by, { name })))
  print([{ id: made.account.id, name }], json)
}

async function limit (id: string, pairs: string[], json: boolean): Promise<void> {
  const limits = Object.fromEntries(pairs.map(limitOfPair))
  const { account } = await withServices(async (services, by) =>
    granted(await changeAccount(services, by, id, { limits }))
  )
  print([rowOf(account, json)], json)
}

async function quota (id: string, count: string, json: boolean): Promise<void> {
  const recipientsPerDay = count === 'none' ? null : Number(count)
  const fault = recipientsPerDay === null ? null : quotaFault(recipientsPerDay)
  if (fault !== null) throw usageError(fault.message)
  const { account } = await withServices(async (services, by) =>
    granted(await changeAccount(services, by, id, { recipientsPerDay }))
  )
  print([rowOf(account, json)], json)
}

interface Suspension {
  reason?: string
  note?: string
  json: boolean
}

async function suspend (id: string, { reason, note, json }: Suspension): Promise<void> {
  const known = SUSPENSION_REASONS.find(one => one === reason)
  if (known === undefined) throw usageError(`--reason must be one of ${SUSPENSION_REASONS.join(', ')}.`)
  const { account } = await withServices(async (services, by) =>
    granted(await suspendAccount(services, by, id, { reason: known, note: note ?? null }))
  )
  print([rowOf(account, json)], json)
}

async function resume (id: string, json: boolean): Promise<void> {
  const { account } = await withServices(async (services, by) => granted(await resumeAccount(services, by, id)))
  print([rowOf(account, json)], json)
}
