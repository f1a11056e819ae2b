import { type CliCommand, misused, readArgs } from './command.ts'
import { print, printFields } from './table.ts'
import { withApi } from './with-api.ts'

export const me: CliCommand = {
  usage: 'jetpost me [--json]',
  details:
    `Shows the key in JETPOST_API_KEY as Jetpost at JETPOST_PUBLIC_URL knows it: what it may do (scopes), from which
domains it may send, its requests a minute, when it ends, and its account. Any key may ask.`,
  async run (args) {
    const { values, positionals } = readArgs(args, {})
    if (positionals.length > 0) throw misused(me)
    const key = await withApi(async jetpost => await jetpost.me())
    if (values.json) return print([{ ...key }], true)
    const { id, name, scopes, domains, limits, expires_at: expiresAt, test, account } = key
    printFields({
      key: `${name} (${id})`,
      account: `${account.name} (${account.id})`,
      scopes: scopes.join(', '),
      domains: domains.join(', '),
      limits: Object.entries(limits).map(([what, perMinute]) => `${what}=${perMinute}`).join(' '),
      expires_at: expiresAt ?? 'never',
      test
    })
  }
}
