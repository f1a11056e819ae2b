import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Complaint } from '#src/base/errors.ts'
import type { Account } from './postgres-account.ts'
import type { PostgresPackage } from './postgres-package.ts'
import { writePrivateFile } from './private-file.ts'
import { lastLine, run } from './run-command.ts'

/** The one that initdb makes. Nobody can log in as it: it has no password. */
export const SUPERUSER = 'postgres'
/** Whom Jetpost is to PostgreSQL, and its database. */
export const ROLE = 'jetpost'

/** Recovery after a crash may come first. */
const SETUP_MS = 600_000

export interface SuperuserOptions {
  /** The database folder, on which no server runs. */
  folder: string
  programs: PostgresPackage
  account: Account
  signal?: AbortSignal
}

/** Runs statements as the superuser, who needs no password here: PostgreSQL in single-user mode takes them from its
 *  standard input, a line each. It goes on after one that fails. Throws a Complaint when it does not run at all.
 *  Source: PostgreSQL documentation, "postgres", Single-User Mode. */
export async function asSuperuser (
  { folder, programs, account, signal }: SuperuserOptions,
  database: string,
  statements: string[]
): Promise<void> {
  const single = ['--single', '-D', folder, '-c', 'log_min_error_statement=panic', database]
  const [file, args] = account.wrap(programs.postgres, single)
  const input = statements.map(statement => `${statement}\n`).join('')
  const { code, output } = await run(file, args, { timeoutMs: SETUP_MS, env: programs.env, signal, input })
  if (signal?.aborted) throw new Complaint('Jetpost was stopped while it was setting up the PostgreSQL database.')
  if (code !== 0) throw new Complaint(`PostgreSQL could not set up its database: ${lastLine(output)}`)
}

/** Goes with the folder, wherever that is moved. */
const markIn = (folder: string): string => join(folder, 'jetpost.role')

/** Makes Jetpost's role, which owns its database and is no superuser, where that has not been done: in a new folder,
 *  and in one in which Jetpost was the superuser. Safe to repeat. */
export async function setUpRole (options: SuperuserOptions, password: string): Promise<void> {
  const { folder, account } = options
  if (existsSync(markIn(folder))) return
  await asSuperuser(options, SUPERUSER, [...FORMER, ...roleWith(password)])
  await asSuperuser(options, ROLE, [OWN_ALL])
  writePrivateFile(markIn(folder), 'Jetpost is no superuser here.\n')
  account.own(markIn(folder))
}

/** Jetpost was the one that initdb made, which cannot be less than a superuser: it gets another name. Nobody is renamed
 *  by themselves. Elsewhere these fail. */
const FORMER = [
  'create role jetpost_setup superuser',
  'set session authorization jetpost_setup',
  `alter role ${ROLE} rename to ${SUPERUSER}`,
  'reset session authorization',
  'drop role jetpost_setup'
]

function roleWith (password: string): string[] {
  return [
    `create role ${ROLE}`,
    `alter role ${ROLE} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password '${
      password.replaceAll("'", "''")
    }'`,
    `alter role ${SUPERUSER} password null`,
    `create database ${ROLE} owner ${ROLE}`,
    `alter database ${ROLE} owner to ${ROLE}`
  ]
}

/** Whatever the superuser (whose oid is 10) has made in the database, but for PostgreSQL's own. */
const OWN_ALL = `do $$ declare one record; begin
  for one in
    select format('alter schema %I owner to ${ROLE}', nspname) as line from pg_namespace
    where nspowner = 10 and nspname !~ '^pg_' and nspname <> 'information_schema'
    union all
    select format('alter table %s owner to ${ROLE}', format('%I.%I', nspname, relname))
    from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where relowner = 10 and relkind in ('r', 'p', 'v', 'm') and nspname !~ '^pg_' and nspname <> 'information_schema'
  loop execute one.line; end loop;
  end $$`.replaceAll(/\s*\n\s*/g, ' ')
