import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { KeyEntry } from '#streams/directory.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { OVERLAP_S_DEFAULT, OVERLAP_S_MAX } from '#streams/key/decide.ts'
import { LIMIT_CLASSES, type Scope } from '#streams/key/facts.ts'
import type { Services } from '#src/actions/services.ts'
import {
  grantKey,
  limitKey,
  ownKey,
  revokeKey,
  revokeWithChildren,
  rotateKey,
  type KeyAsker
} from '#src/actions/key.ts'
import { parseTime, timestamp } from '#src/base/clock.ts'
import { Complaint } from '#src/base/errors.ts'
import { keyAnswer, keyAnswerOf } from '#src/servers/api/keys.ts'
import { misused, noVerb, readArgs, takeOnly, usageError, type CliCommand } from './command.ts'
import { limitOfPair, pairsOf } from './input.ts'
import { withServices, granted, knownAccount } from './open-services.ts'
import { print, printFields } from './table.ts'

const options = {
  account: { type: 'string', default: FIRST_ACCOUNT },
  name: { type: 'string', default: 'created in the shell' },
  scopes: { type: 'string', default: 'full' },
  domains: { type: 'string', default: '*' },
  expires: { type: 'string' },
  test: { type: 'boolean', default: false },
  overlap: { type: 'string', default: `${OVERLAP_S_DEFAULT}s` },
  'with-children': { type: 'boolean', default: false }
} as const

type Values = ReturnType<typeof readArgs<typeof options>>['values']

/** What each verb takes besides --account and --json. */
const takes = new Map<string, Array<keyof typeof options>>([
  ['list', []],
  ['create', ['name', 'scopes', 'domains', 'expires', 'test']],
  ['show', []],
  ['rotate', ['overlap']],
  ['limit', []],
  ['revoke', ['with-children']]
])

export const keys: CliCommand = {
  usage: `jetpost keys [list] [--account <id>] [--json]
jetpost keys create [--name <text>] [--scopes a,b] [--domains a,b] [--expires <time>] [--test] [--account <id>]
jetpost keys show <key id> [--account <id>]
jetpost keys revoke <key id> [--with-children] [--account <id>]
jetpost keys rotate <key id> [--overlap 24h] [--account <id>]
jetpost keys limit <key id> <class>=<per minute>… [--account <id>]`,
  details: `  create  shows the secret, this once. --scopes full, --domains "*" unless given; --test: its mail goes to
          the mail catcher only
  rotate  makes a new secret; the old one is valid for the overlap, 0 to 7d
  revoke  --with-children: also the keys it has made, and those that they have made
  limit   sets requests a minute, by class: ${LIMIT_CLASSES.join(', ')}
  --account  defaults to the first account`,
  async run (args) {
    const { positionals: [verb = 'list', ...rest], values, given } = readArgs(args, options)
    const [id] = rest
    if (!takes.has(verb)) throw noVerb(keys, 'keys', verb, takes.keys())
    takeOnly(given, [...takes.get(verb)!, 'account', 'json'], `keys ${verb}`)
    if (verb === 'list' && id === undefined) return await list(values)
    if (verb === 'create' && id === undefined) return await create(values)
    if (verb === 'limit' && rest.length > 1) return await limit(values, id!, rest.slice(1))
    if (id === undefined || rest.length > 1) throw misused(keys)
    if (verb === 'show') return await show(values, id)
    if (verb === 'rotate') return await rotate(values, id)
    if (verb === 'revoke') return await revoke(values, id)
    throw misused(keys)
  }
}

/** With the services, as the operator of this account's keys. */
async function atKeys<T> (account: string, use: (services: Services, asker: KeyAsker) => Promise<T>): Promise<T> {
  return await withServices(async (services, by) =>
    await use(services, { account: knownAccount(services, account), ...by, by: null })
  )
}

async function list ({ account, json }: Values): Promise<void> {
  const rows = await atKeys(account, async services => {
    const own = [...services.directory.now.keys.values()].filter(key => key.account === account)
    const uses = await services.keyUses.lastOf(own)
    return own.map(key => {
      const answer = keyAnswer(key, Date.now(), uses.get(key.id) ?? null)
      return json ? answer : rowOf(key, answer.last_used_at)
    })
  })
  print(rows, json)
}

function rowOf (
  { id, name, hint, scopes, domains, limits, expiresMs }: KeyEntry,
  lastUsedAt: string | null
) {
  return {
    id,
    name,
    key: hint,
    scopes: scopes.join(),
    domains: domains.join(),
    limits: pairsOf(limits),
    expires_at: expiresMs === null ? 'never' : timestamp(expiresMs),
    last_used_at: lastUsedAt ?? 'never'
  }
}

/** One key in full: its limits, its defaults for mail, until when its previous secret is valid. */
async function show ({ account, json }: Values, id: string): Promise<void> {
  const { key, answer } = await atKeys(account, async (services, asker) => {
    const key = owned(services, asker, id)
    return { key, answer: await keyAnswerOf(services, key) }
  })
  if (json) return print([answer], true)
  const { limits, track, unsubscribe, test, previous_expires_at, made_by } = answer
  const row = {
    ...rowOf(key, answer.last_used_at),
    created_at: key.createdAt,
    test,
    limits: pairsOf(limits),
    track_opens: track.opens,
    track_clicks: track.clicks,
    unsubscribe,
    previous_expires_at,
    made_by
  }
  printFields(row)
}

function owned (services: Services, asker: KeyAsker, id: string): KeyEntry {
  const key = ownKey(services, asker, id)
  if (key === undefined) throw new Complaint(`There is no key ${id}.`)
  return key
}

async function create ({ account, name, scopes, domains, expires, test, json }: Values): Promise<void> {
  const expiresMs = expires === undefined ? null : parseTime(expires)
  if (expires !== undefined && expiresMs === null) throw usageError('--expires takes a time like 2027-01-31T12:00:00Z.')
  const wanted = {
    name,
    test,
    scopes: scopes.split(',') as Scope[],
    domains: domains.split(','),
    expiresMs,
    defaults: NO_DEFAULTS
  }
  const { answer, secret } = await atKeys(account, async (services, asker) => {
    const { key, secret } = granted(await grantKey(services, asker, wanted))
    return { answer: await keyAnswerOf(services, key), secret }
  })
  print([json ? { key: secret, ...answer } : { id: answer.id, key: secret }], json)
}

async function rotate ({ account, overlap, json }: Values, id: string): Promise<void> {
  const overlapS = secondsOf(overlap)
  const { answer, secret } = await atKeys(account, async (services, asker) => {
    const { key, secret } = granted(await rotateKey(services, asker, id, overlapS))
    return { answer: await keyAnswerOf(services, key), secret }
  })
  print([
    json ? { key: secret, ...answer } : { id, key: secret, previous_expires_at: answer.previous_expires_at ?? 'now' }
  ], json)
}

const UNIT_S: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** `24h`, `90m`, `0`. */
function secondsOf (text: string): number {
  const match = /^(\d{1,9})([smhd])$/.exec(text === '0' ? '0s' : text)
  const seconds = match === null ? Infinity : Number(match[1]) * UNIT_S[match[2]!]!
  if (seconds > OVERLAP_S_MAX) throw usageError('--overlap takes a duration like 24h, 90m or 0, at most 7d.')
  return seconds
}

async function limit ({ account, json }: Values, id: string, pairs: string[]): Promise<void> {
  const limits = Object.fromEntries(pairs.map(limitOfPair))
  const answer = await atKeys(account, async (services, asker) => {
    const { key } = granted(await limitKey(services, asker, owned(services, asker, id).id, limits))
    return await keyAnswerOf(services, key)
  })
  print([json ? answer : { id, limits: pairsOf(answer.limits) }], json)
}

async function revoke ({ account, json, ...values }: Values, id: string): Promise<void> {
  const end = values['with-children'] ? revokeWithChildren : revokeKey
  const { revoked } = await atKeys(account, async (services, asker) => granted(await end(services, asker, id)))
  print([{ id, revoked: true, ...(values['with-children'] ? { keys: revoked } : {}) }], json)
}
