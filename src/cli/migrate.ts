import { projections } from '#projections/list.ts'
import { isCreated, liveSet } from '#src/postgres/table-sets.ts'
import { misused, readArgs, type CliCommand } from './command.ts'
import { rebuildProjections } from './rebuild-projections.ts'

export const migrate: CliCommand = {
  usage: 'jetpost migrate [--json]',
  details: `  Builds the projections of this version beside those of the running one, so that the next start finds them
  ready. Without it, the first process of this version builds them when it starts, and reads wait until then.
  The running version uses its own, which are dropped a week after its last process has stopped.
  --json  one object for each projection`,
  async run (args) {
    const { values: { json }, positionals } = readArgs(args, {})
    if (positionals.length > 0) throw misused(migrate)
    await rebuildProjections(Object.values(projections), {
      json,
      why: 'this version has none yet',
      isNeeded: async (pool, projection) => !await isCreated(pool, liveSet(projection))
    })
  }
}
