import { addDomain, removeDomain } from '#src/actions/domain.ts'
import { FIRST_ACCOUNT } from '#src/actions/first-start.ts'
import { print, readArgs, usageError, type Command } from './command.ts'
import { atDesk, granted } from './open-desk.ts'

export const domains: Command = {
  usage: 'jetpost domains [list | add <name> | remove <name>] [--account <id>] [--json]',
  means: 'domains an account may send from; --account defaults to the first account',
  async run (args) {
    const { positionals: [verb = 'list', name], values } = readArgs(args, { account: { type: 'string', default: FIRST_ACCOUNT } })
    const { account, json } = values
    if (verb === 'list') {
      const rows = await atDesk(async desk => [...desk.directory.now.domains.values()].filter(domain => domain.account === account))
      return print(rows.map(domain => ({ id: domain.id, name: domain.name, created_at: domain.createdAt })), json)
    }
    if (name === undefined || (verb !== 'add' && verb !== 'remove')) throw usageError(`usage: ${domains.usage}`)
    await atDesk(async (desk, correlation) => {
      if (!desk.directory.now.accounts.has(account)) throw usageError(`There is no account ${account}.`)
      const asker = { account, correlation }
      if (verb === 'remove') return void granted(await removeDomain(desk, asker, name))
      const added = granted(await addDomain(desk, asker, name))
      print([{ id: added.domain, name: added.name }], json)
    })
  }
}
