import { createAccount } from '#src/actions/account.ts'
import { misused, noVerb, readArgs, type CliCommand } from './command.ts'
import { withServices, granted } from './open-services.ts'
import { print } from './table.ts'

export const accounts: CliCommand = {
  usage: 'jetpost accounts [list] [--json]\njetpost accounts create <name> [--json]',
  details: '  Each account has its own keys, domains, mail and webhooks.',
  async run (args) {
    const { positionals: [verb = 'list', name, ...more], values } = readArgs(args, {})
    if (verb === 'list' && name === undefined) {
      const rows = await withServices(async services => [...services.directory.now.accounts.values()])
      return print(rows.map(({ id, name, createdAt }) => ({ id, name, created_at: createdAt })), values.json)
    }
    if (verb !== 'list' && verb !== 'create') throw noVerb(accounts, 'accounts', verb, ['list', 'create'])
    if (verb !== 'create' || name === undefined || more.length > 0) throw misused(accounts)
    const made = await withServices(async (services, correlation) =>
      granted(await createAccount(services, correlation, name))
    )
    print([{ id: made.account, name }], values.json)
  }
}
