import { readConfig } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { migrate as migrateDatabase } from '#src/postgres/migrate.ts'
import { takeNothing, type Command } from './command.ts'

export const migrate: Command = {
  usage: 'jetpost migrate',
  means: 'brings the PostgreSQL schema up to date (DATABASE_URL; the embedded one is migrated at every start)',
  async run (args) {
    takeNothing(args, 'jetpost migrate')
    const { databaseUrl } = readConfig(process.env)
    if (databaseUrl === null) throw new Complaint('Set DATABASE_URL: the embedded PostgreSQL is migrated by `jetpost start`.')
    await migrateDatabase(databaseUrl)
  }
}
