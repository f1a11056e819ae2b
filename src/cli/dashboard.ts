import { LINK_PATH, mintLink, operatorsKey } from '#src/actions/session.ts'
import { hasDashboard } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { misused, readArgs, type CliCommand } from './command.ts'
import { withServices } from './open-services.ts'
import { apiUrlOf, readSettings } from './settings.ts'
import { dashboardUrl } from './start/welcome.ts'
import { print } from './table.ts'

export const dashboard: CliCommand = {
  usage: 'jetpost dashboard [--json]',
  details: `  The link works once, within 15 minutes. It leads to the service that runs on the data folder, unless
  JETPOST_PUBLIC_URL or PORT is set here.`,
  async run (args) {
    const { values: { json }, positionals } = readArgs(args, {})
    if (positionals.length > 0) throw misused(dashboard)
    const settings = await readSettings('NATS_URL')
    if (!hasDashboard(settings.config)) {
      throw new Complaint('There is no dashboard below a path: it takes a JETPOST_PUBLIC_URL with a host of its own.')
    }
    const base = dashboardUrl({ url: apiUrlOf(settings) }, settings.config)
    const token = await withServices(async (services, by) => {
      const key = operatorsKey(services)
      if (key === null) {
        throw new Complaint(
          "The first account has no key that opens the operator's dashboard: make one with jetpost keys create " +
            '--scopes full.'
        )
      }
      return (await mintLink(services, by, key)).token
    })
    const url = `${base}${LINK_PATH}${token}`
    if (json) print([{ url }], true)
    else console.log(url)
  }
}
