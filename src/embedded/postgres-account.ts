import { chmodSync, chownSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { Complaint } from '#src/base/errors.ts'
import type { PostgresPackage } from './postgres-package.ts'
import { lastLine, run } from './run-command.ts'

const ACCOUNTS = ['postgres', 'nobody']
const RUN_MS = 5_000

/** Whom PostgreSQL runs as. It refuses to run as root. */
export interface Account {
  /** Prefixes a command so that it runs as this account. */
  wrap(file: string, args: string[]): [file: string, args: string[]]
  /** Hands a file or folder over to this account. */
  own(path: string): void
}

const OURSELVES: Account = { wrap: (file, args) => [file, args], own: () => {} }

/** Ourselves, unless we are root: then the owner of the database `folder` when there is one, else the user `postgres`,
 *  else `nobody` (a number without a passwd entry does not do, initdb looks itself up).
 *
 *  It has nothing of root's. The data folder stays root's, and the account's group may pass through it. Where that does
 *  not do, since the folder or node_modules lies under a folder that only root may enter, the account gets root's right
 *  to pass (CAP_DAC_OVERRIDE). Throws a Complaint where neither is possible. */
export async function postgresAccount (folder: string, programs: PostgresPackage): Promise<Account> {
  if (process.getuid!() !== 0) return OURSELVES
  const ids = ownerOf(folder) ?? await firstAccount()
  const drop = await plainly(ids, dirname(folder), programs) ?? await withPassage(ids)
  return {
    wrap: (file, args) => ['setpriv', [...drop, file, ...args]],
    own: path => chownSync(path, ids.uid, ids.gid)
  }
}

/** Of setpriv: without any capability, and without a way to get one. Null when the account could not reach its programs
 *  and its folder so. */
async function plainly ({ uid, gid }: Ids, dataDir: string, { postgres, initdb, env }: PostgresPackage) {
  const drop = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--no-new-privs', '--inh-caps=-all']
  const ownerUid = statSync(dataDir).uid
  chownSync(dataDir, ownerUid, gid)
  chmodSync(dataDir, 0o710)
  // Its programs write to /dev/null.
  const reach = '"$1" --version && "$2" --version && test -x "$3" && test -w /dev/null'
  const args = [...drop, 'sh', '-c', reach, 'sh', postgres, initdb, dataDir]
  const { code } = await run('setpriv', args, { timeoutMs: RUN_MS, env })
  if (code === 0) return drop
  chmodSync(dataDir, 0o700)
  return null
}

async function withPassage ({ uid, gid }: Ids): Promise<string[]> {
  // no_setuid_fixup: without it access(2), by which initdb looks for its neighbours, ignores the capability of who
  // is not root.
  const drop = [
    `--reuid=${uid}`,
    `--regid=${gid}`,
    '--clear-groups',
    '--securebits=+no_setuid_fixup',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override'
  ]
  const { code, output } = await run('setpriv', [...drop, 'true'], { timeoutMs: RUN_MS })
  if (code === 0) return drop
  throw new Complaint(
    'PostgreSQL does not run as root and Jetpost could not start it as another user ' +
      `(setpriv: ${
        lastLine(output)
      }): run Jetpost as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own.`
  )
}

interface Ids {
  uid: number
  gid: number
}

/** An existing database stays its owner's. */
function ownerOf (folder: string): Ids | null {
  const found = statSync(folder, { throwIfNoEntry: false })
  return found === undefined || found.uid === 0 ? null : { uid: found.uid, gid: found.gid }
}

async function firstAccount (): Promise<Ids> {
  for (const name of ACCOUNTS) {
    const ids = await idsOf(name)
    if (ids !== null) return ids
  }
  throw new Complaint(
    `PostgreSQL does not run as root and there is no user ${ACCOUNTS.join(' or ')} to run it as: ` +
      'run Jetpost as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own.'
  )
}

async function idsOf (name: string): Promise<Ids | null> {
  const [user, group] = await Promise.all(['-u', '-g'].map(flag => run('id', [flag, name], { timeoutMs: RUN_MS })))
  if (user!.code !== 0 || group!.code !== 0) return null
  return { uid: Number(user!.output), gid: Number(group!.output) }
}
