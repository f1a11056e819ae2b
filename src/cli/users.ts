import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { ROLE_MEANINGS, USER_ROLES, type UserRole } from '#streams/user/roles.ts'
import type { UserEntry } from '#streams/user/state.ts'
import type { KeyAsker } from '#src/actions/key.ts'
import type { Services } from '#src/actions/services.ts'
import { changeUser, createUser, mintUserLink, removeUser } from '#src/actions/user.ts'
import { timestamp } from '#src/base/clock.ts'
import { hasDashboard } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { misused, noVerb, readArgs, takeOnly, type CliCommand } from './command.ts'
import { granted, knownAccount, withServices } from './open-services.ts'
import { apiUrlOf, readSettings } from './settings.ts'
import { dashboardUrl } from './start/welcome.ts'
import { print } from './table.ts'

const options = {
  account: { type: 'string', default: FIRST_ACCOUNT },
  name: { type: 'string' },
  role: { type: 'string', default: 'viewer' },
  'with-keys': { type: 'boolean', default: false }
} as const

type Values = ReturnType<typeof readArgs<typeof options>>['values']

/** What each verb takes besides --account and --json. */
const takes = new Map<string, Array<keyof typeof options>>([
  ['list', []],
  ['create', ['name', 'role']],
  ['change', ['name', 'role']],
  ['remove', ['with-keys']],
  ['link', []]
])

export const users: CliCommand = {
  usage: `jetpost users [list] [--account <id>] [--json]
jetpost users create <address> [--role <role>] [--name <text>] [--account <id>]
jetpost users change <user id or address> [--role <role>] [--name <text>] [--account <id>]
jetpost users remove <user id or address> [--with-keys] [--account <id>]
jetpost users link <user id or address> [--account <id>]`,
  details: `  create  lets a person sign in to the dashboard, and prints a link that signs them in once
  link    prints another one: it works once, within a day
  remove  ends the person's sessions; --with-keys: also the keys they have made, and those that these have made
  --role  viewer unless given
${USER_ROLES.map(role => `          ${role}: ${ROLE_MEANINGS[role]}`).join('\n')}
  --account  defaults to the first account`,
  async run (args) {
    const { positionals: [verb = 'list', ...rest], values, given } = readArgs(args, options)
    const [who] = rest
    if (!takes.has(verb)) throw noVerb(users, 'users', verb, takes.keys())
    takeOnly(given, [...takes.get(verb)!, 'account', 'json'], `users ${verb}`)
    if (verb === 'list' && who === undefined) return await list(values)
    if (who === undefined || rest.length > 1) throw misused(users)
    if (verb === 'create') return await create(values, who)
    if (verb === 'change' && given.some(option => option === 'role' || option === 'name')) {
      return await change(values, who, given)
    }
    if (verb === 'remove') return await remove(values, who)
    if (verb === 'link') return await link(values, who)
    throw misused(users)
  }
}

/** With the services, as the operator of this account's people. */
async function atUsers<T> (account: string, use: (services: Services, asker: KeyAsker) => Promise<T>): Promise<T> {
  return await withServices(async (services, by) =>
    await use(services, { account: knownAccount(services, account), ...by, by: null })
  )
}

function rowOf ({ id, address, name, role, identity, passkeys, createdAt }: UserEntry, lastSeenMs: number | null) {
  return {
    id,
    email: address,
    name,
    role,
    issuer: identity?.issuer ?? '',
    passkeys: passkeys.length,
    last_seen_at: lastSeenMs === null ? 'never' : timestamp(lastSeenMs),
    created_at: createdAt
  }
}

async function list ({ account, json }: Values): Promise<void> {
  const rows = await atUsers(account, async services => {
    const own = [...services.directory.now.users.values()].filter(user => user.account === account)
    const uses = await services.keyUses.lastOf(own)
    return own.map(user => rowOf(user, uses.get(user.id) ?? null))
  })
  print(rows, json)
}

/** Where the link leads. Throws a Complaint where there is no dashboard. */
async function baseUrl (): Promise<string> {
  const settings = await readSettings('NATS_URL')
  if (!hasDashboard(settings.config)) {
    throw new Complaint('There is no dashboard below a path: it takes a JETPOST_PUBLIC_URL with a host of its own.')
  }
  return dashboardUrl({ url: apiUrlOf(settings) }, settings.config)
}

async function create ({ account, name, role, json }: Values, address: string): Promise<void> {
  const base = await baseUrl()
  const row = await atUsers(account, async (services, asker) => {
    const wanted = { address, role: role as UserRole, ...(name === undefined ? {} : { name }) }
    const { user, seq } = granted(await createUser(services, asker, wanted))
    await services.directory.reached(seq, 5000)
    return { id: user.id, role: user.role, ...await linkOf(services, asker, user, base) }
  })
  print([row], json)
}

async function linkOf (services: Services, asker: KeyAsker, { id }: UserEntry, base: string) {
  const { url, expiresAt } = granted(await mintUserLink(services, asker, id, base))
  return { url, expires_at: expiresAt }
}

async function change ({ account, name, role, json }: Values, who: string, given: readonly string[]): Promise<void> {
  const user = await atUsers(account, async (services, asker) => {
    const wanted = {
      ...(name === undefined ? {} : { name }),
      ...(given.includes('role') ? { role: role as UserRole } : {})
    }
    return granted(await changeUser(services, asker, known(services, account, who).id, wanted)).user
  })
  print([{ id: user.id, email: user.address, name: user.name, role: user.role }], json)
}

async function remove ({ account, json, ...values }: Values, who: string): Promise<void> {
  const row = await atUsers(account, async (services, asker) => {
    const { id, address } = known(services, account, who)
    const { revoked } = granted(await removeUser(services, asker, id, values['with-keys']))
    return { id, email: address, removed: true, ...(values['with-keys'] ? { keys: revoked } : {}) }
  })
  print([row], json)
}

async function link ({ account, json }: Values, who: string): Promise<void> {
  const base = await baseUrl()
  const { url, ...row } = await atUsers(
    account,
    async (services, asker) => await linkOf(services, asker, known(services, account, who), base)
  )
  if (json) print([{ url, ...row }], true)
  else console.log(url)
}

/** By id or address. */
function known ({ directory }: Services, account: string, who: string): UserEntry {
  const user = [...directory.now.users.values()].find(({ account: of, id, address }) =>
    of === account && (id === who || address === who.toLowerCase())
  )
  if (user === undefined) throw new Complaint(`There is no user ${who}.`)
  return user
}
