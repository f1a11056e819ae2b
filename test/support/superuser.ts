import { realpathSync } from 'node:fs'
import { createLog } from '#src/base/log.ts'
import { postgresAccount } from '#src/embedded/postgres-account.ts'
import { postgresFolder } from '#src/embedded/postgres-folder.ts'
import { findPostgres } from '#src/embedded/postgres-package.ts'
import { asSuperuser, ROLE } from '#src/embedded/postgres-role.ts'
import { startEmbedded } from '#src/embedded/start.ts'

/** Makes the embedded PostgreSQL of a new folder, and lets Jetpost's role do there what a test does beside Jetpost: not
 *  a superuser, so that what Jetpost does works without one. It does not run yet, nor any more. */
export async function makePostgres (folder: string, powers: string[], say: (line: string) => void): Promise<void> {
  const servers = await startEmbedded({
    dataDir: folder,
    nats: false,
    postgres: true,
    log: createLog('silent'),
    say
  })
  await servers.stop()
  const dataDir = realpathSync(folder)
  const path = postgresFolder(dataDir)
  const programs = findPostgres(dataDir)
  await asSuperuser({ folder: path, programs, account: await postgresAccount(path, programs) }, ROLE, powers)
}

export const CREATES_DATABASES = `alter role ${ROLE} createdb`
/** For the bench that compares a rebuild with PostgreSQL's own COPY. */
export const COPIES_FILES =
  `grant pg_read_server_files, pg_write_server_files, pg_read_all_settings, pg_checkpoint to ${ROLE}`
