import { projections } from '#projections/list.ts'
import { isCreated, liveSet } from '#src/postgres/table-sets.ts'
import { readArgs, usageError, type Command } from './command.ts'
import { makeViews } from './views.ts'

export const migrate: Command = {
  usage: 'jetpost migrate [--json]',
  means: 'makes the views of this version beside those of the running one, so that the next start finds them ready',
  details:
    `  Without it the first process of this version does the same when it starts, and reads wait until it is done. The running version goes on with its own views,
  which are dropped a week after the last process of it is gone.
  --json  one object for each view`,
  async run (args) {
    const { values: { json }, positionals } = readArgs(args, {})
    if (positionals.length > 0) throw usageError(`usage: ${migrate.usage}`)
    await makeViews(Object.values(projections), {
      json,
      why: 'this version has none',
      isNeeded: async (pool, projection) => !await isCreated(pool, liveSet(projection))
    })
  }
}
