import { LINK_PATH, mintLink, operatorsKey } from '#src/actions/session.ts'
import { hasDashboard, readConfig } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { print, readArgs, usageError, type Command } from './command.ts'
import { atServices } from './open-services.ts'

export const dashboard: Command = {
  usage: 'jetpost dashboard [--json]',
  means: 'prints a link that signs you in to the dashboard once, within 15 minutes',
  async run (args) {
    const { values: { json }, positionals } = readArgs(args, {})
    if (positionals.length > 0) throw usageError(`usage: ${dashboard.usage}`)
    const { publicUrl } = readConfig(process.env)
    if (!hasDashboard({ publicUrl })) {
      throw new Complaint('There is no dashboard below a path: it takes a JETPOST_PUBLIC_URL with a host of its own.')
    }
    const token = await atServices(async services => {
      const key = operatorsKey(services)
      if (key === null) {
        throw new Complaint(
          'The first account has no live key that opens the dashboard: make one with jetpost keys create --scopes full.'
        )
      }
      return mintLink(services, key)
    })
    const url = `${publicUrl}${LINK_PATH}${token}`
    if (json) print([{ url }], true)
    else console.log(url)
  }
}
