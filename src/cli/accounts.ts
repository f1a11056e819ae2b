import type { AccountEntry } from '#streams/directory.ts'
import { LIMIT_CLASSES } from '#streams/key/facts.ts'
import { createAccount, limitAccount } from '#src/actions/account.ts'
import { misused, noVerb, readArgs, type CliCommand } from './command.ts'
import { limitOfPair, pairsOf } from './input.ts'
import { withServices, granted } from './open-services.ts'
import { print } from './table.ts'

const VERBS = ['list', 'create', 'limit']

export const accounts: CliCommand = {
  usage: `jetpost accounts [list] [--json]
jetpost accounts create <name> [--json]
jetpost accounts limit <account> <class>=<per minute>… [--json]`,
  details: `  Each account has its own keys, domains, mail and webhooks.
  limit   sets requests a minute of all its keys together, by class: ${LIMIT_CLASSES.join(', ')}`,
  async run (args) {
    const { positionals: [verb = 'list', ...rest], values: { json } } = readArgs(args, {})
    const [name, ...more] = rest
    if (verb === 'list' && name === undefined) return await list(json)
    if (!VERBS.includes(verb)) throw noVerb(accounts, 'accounts', verb, VERBS)
    if (verb === 'create' && name !== undefined && more.length === 0) return await create(name, json)
    if (verb === 'limit' && name !== undefined && more.length > 0) return await limit(name, more, json)
    throw misused(accounts)
  }
}

async function list (json: boolean): Promise<void> {
  const all = await withServices(async services => [...services.directory.now.accounts.values()])
  print(all.map(account => rowOf(account, json)), json)
}

function rowOf ({ id, name, limits, createdAt }: AccountEntry, json: boolean) {
  return { id, name, limits: json ? limits : pairsOf(limits), created_at: createdAt }
}

async function create (name: string, json: boolean): Promise<void> {
  const made = await withServices(async (services, by) => granted(await createAccount(services, by, name)))
  print([{ id: made.account, name }], json)
}

async function limit (id: string, pairs: string[], json: boolean): Promise<void> {
  const limits = Object.fromEntries(pairs.map(limitOfPair))
  const { account } = await withServices(async (services, by) => granted(await limitAccount(services, by, id, limits)))
  print([rowOf(account, json)], json)
}
