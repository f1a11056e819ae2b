import type { Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import { misused, readArgs, usageError, type CliCommand } from './command.ts'
import { rebuildProjections } from './rebuild-projections.ts'
import { didYouMean } from '#src/base/suggest.ts'

export const rebuild: CliCommand = {
  usage: 'jetpost rebuild <projection>|all [--json]',
  details: `  Builds a projection from the log beside the live one, and swaps it in; the service runs on, and nobody who
  reads or writes is stopped. An interrupted rebuild continues when it is called again. Uses the servers of the
  running service, or those of NATS_URL and DATABASE_URL.
  The projections are ${Object.keys(projections).join(', ')}.
  --json  one object for each projection`,
  async run (args) {
    const { values: { json }, positionals: [name, ...more] } = readArgs(args, {})
    if (name === undefined || more.length > 0) throw misused(rebuild)
    const wanted = Object.values<Projection>(projections).filter(projection =>
      name === 'all' || projection.name === name
    )
    if (wanted.length === 0) {
      throw usageError(
        `There is no projection ${JSON.stringify(name)}.${
          didYouMean(name, Object.keys(projections)) || ` The projections are ${Object.keys(projections).join(', ')}.`
        }`
      )
    }
    await rebuildProjections(wanted, { json, why: 'an operator requested it', isNeeded: null })
  }
}
