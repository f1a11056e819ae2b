import type { LimitClass, Scope } from '#streams/key/facts.ts'
import { FIRST_ACCOUNT } from '#src/actions/first-start.ts'
import { createKey, limitKey, revokeKey } from '#src/actions/key.ts'
import { print, readArgs, usageError, type Command } from './command.ts'
import { atDesk, granted } from './open-desk.ts'

const options = {
  account: { type: 'string', default: FIRST_ACCOUNT },
  name: { type: 'string', default: 'made by the shell' },
  scopes: { type: 'string', default: 'full' },
  domains: { type: 'string', default: '*' },
  expires: { type: 'string' },
  test: { type: 'boolean', default: false }
} as const

export const keys: Command = {
  usage: 'jetpost keys [list | create [--name n] [--scopes a,b] [--domains a,b] [--expires <RFC 3339>] [--test] | ' +
    'limit <key id> <class>=<per minute>… | revoke <key id>] [--account <id>] [--json]',
  means: 'API keys; a new key is shown once. Classes: emails:send, emails:list, templates:create, other',
  async run (args) {
    const { positionals: [verb = 'list', ...rest], values } = readArgs(args, options)
    if (verb === 'list') return await list(values.account, values.json)
    if (verb === 'create') return await create(values)
    if (verb === 'limit' && rest.length > 1) return await limit(rest[0]!, rest.slice(1))
    if (verb === 'revoke' && rest.length === 1) return await revoke(values.account, rest[0]!)
    throw usageError(`usage: ${keys.usage}`)
  }
}

async function list (account: string, json: boolean): Promise<void> {
  const rows = await atDesk(async desk => [...desk.directory.now.keys.values()].filter(key => key.account === account))
  print(rows.map(key => ({
    id: key.id,
    name: key.name,
    key: key.hint,
    scopes: key.scopes.join(','),
    domains: key.domains.join(','),
    limits: Object.entries(key.limits).map(([name, value]) => `${name}=${value}`).join(' '),
    expires_at: key.expiresMs === null ? 'never' : new Date(key.expiresMs).toISOString(),
    created_at: key.createdAt
  })), json)
}

async function create (values: { account: string, name: string, scopes: string, domains: string, expires?: string, test: boolean, json: boolean }): Promise<void> {
  const expiresMs = values.expires === undefined ? null : Date.parse(values.expires)
  if (Number.isNaN(expiresMs)) throw usageError('--expires takes a time like 2027-01-31T12:00:00Z.')
  const made = await atDesk(async (desk, correlation) => {
    if (!desk.directory.now.accounts.has(values.account)) throw usageError(`There is no account ${values.account}.`)
    const { name, test } = values
    const wanted = { name, test, scopes: values.scopes.split(',') as Scope[], domains: values.domains.split(','), expiresMs }
    return granted(await createKey(desk, { account: values.account, correlation }, wanted))
  })
  print([{ id: made.key, key: made.secret }], values.json)
}

async function limit (id: string, pairs: string[]): Promise<void> {
  const limits = Object.fromEntries(pairs.map(pair => pair.split('=')).map(([name, value]) => [name, Number(value)])) as Partial<Record<LimitClass, number>>
  await atDesk(async (desk, correlation) => granted(await limitKey(desk, correlation, id, limits)))
}

async function revoke (account: string, id: string): Promise<void> {
  await atDesk(async (desk, correlation) => granted(await revokeKey(desk, { account, correlation }, id)))
}
