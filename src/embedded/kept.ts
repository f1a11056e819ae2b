import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Complaint, errorCode } from '#src/base/errors.ts'
import { newSecret } from '#src/base/secret.ts'
import { isLocked } from './lock.ts'
import { writePrivateFile } from './private-file.ts'

/** What one embedded server keeps from start to start. `port` is null until chosen. */
export interface KeptServer {
  port: number | null
  password: string
}

/** The embedded servers' ports and random passwords, kept in the data folder (0600). */
export interface Kept {
  nats: KeptServer
  postgres: KeptServer
  save(): void
}

/** URLs with credentials; null = not run by this Jetpost. */
export interface ServerUrls {
  nats: string | null
  postgres: string | null
}

/** Reads what the folder keeps, or makes it on the first start. Throws a Complaint when the file is there but cannot be
 *  read. */
export function openKept (dataDir: string): Kept {
  const path = join(dataDir, 'credentials.json')
  const { nats, postgres } = existsSync(path) ? parse(path) : { nats: newServer(), postgres: newServer() }
  const save = (): void => writePrivateFile(path, JSON.stringify({ nats, postgres }, null, 2) + '\n')
  save()
  return { nats, postgres, save }
}

function newServer (): KeptServer {
  return { port: null, password: newSecret('') }
}

function parse (path: string): { nats: KeptServer, postgres: KeptServer } {
  try {
    const { nats, postgres } = JSON.parse(readFileSync(path, 'utf8'))
    if (typeof nats.password === 'string' && typeof postgres.password === 'string') return { nats, postgres }
  } catch (error) {
    if (errorCode(error) === 'EACCES') {
      throw new Complaint(`${path} belongs to another user: run Jetpost as that one.`, { cause: error })
    }
    throw new Complaint(
      `${path} cannot be read: restore it from a backup, the embedded PostgreSQL's password is in it.`,
      { cause: error }
    )
  }
  throw new Complaint(
    `${path} is not what Jetpost wrote: restore it from a backup, the embedded PostgreSQL's password is in it.`
  )
}

const serversFile = (dataDir: string): string => join(dataDir, 'servers.json')

/** Says which servers run, for `readServers`. */
export function writeServers (dataDir: string, urls: ServerUrls): void {
  writePrivateFile(serversFile(dataDir), JSON.stringify(urls) + '\n')
}

export function forgetServers (dataDir: string): void {
  rmSync(serversFile(dataDir), { force: true })
}

/** The URLs, with credentials, of the servers that a Jetpost runs in this folder now; null when none does. Throws when
 *  the folder is another user's. A file left by a killed process does not count: nobody holds its lock. */
export function readServers (dataDir: string): ServerUrls | null {
  if (!existsSync(serversFile(dataDir)) || !isLocked(dataDir)) return null
  return JSON.parse(readFileSync(serversFile(dataDir), 'utf8'))
}
