import type { Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import { readArgs, usageError, type Command } from './command.ts'
import { makeViews } from './views.ts'

export const rebuild: Command = {
  usage: 'jetpost rebuild <projection> | all [--json]',
  means:
    'makes a view anew from the log, beside the one that is read, and puts it in its place; the service goes on meanwhile',
  details: `  The projections are ${
    Object.keys(projections).join(', ')
  }. Nobody who reads or writes is stopped. One that is interrupted goes on where it was when it is
  called again. Of the running service, or with NATS_URL and DATABASE_URL of those servers.
  --json  one object for each view when it is made`,
  async run (args) {
    const { values: { json }, positionals: [name, ...more] } = readArgs(args, {})
    if (name === undefined || more.length > 0) throw usageError(`usage: ${rebuild.usage}`)
    const wanted = Object.values<Projection>(projections).filter(projection =>
      name === 'all' || projection.name === name
    )
    if (wanted.length === 0) {
      throw usageError(
        `There is no projection ${JSON.stringify(name)}: there are ${Object.keys(projections).join(', ')}.`
      )
    }
    await makeViews(wanted, { json, why: 'it was asked for', isNeeded: null })
  }
}
