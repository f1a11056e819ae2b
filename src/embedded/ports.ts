import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { Complaint } from '#src/base/errors.ts'

// Below every system's ephemeral range (Linux from 32768, macOS from 49152): there, an outgoing connection could take
// the port while the server restarts, and a client that dials a dead port there can even connect to itself.
const PORT_MIN = 20_000
const PORT_MAX = 30_000
const TRIES_MAX = 100

/** Why nobody can listen there now; null = somebody can. */
export function listenFault (port: number, host: string): Promise<NodeJS.ErrnoException | null> {
  return new Promise(resolve => {
    const probe = createServer()
    probe.once('error', resolve)
    probe.listen({ port, host, exclusive: true }, () => probe.close(() => resolve(null)))
  })
}

async function isFree (port: number): Promise<boolean> {
  return await listenFault(port, '127.0.0.1') === null
}

/** The port to listen on: the operator's (`wanted`, set by `variable`), else the one kept from last time while it is
 *  free, else a new free one. Throws a Complaint when the operator's is taken. */
export async function choosePort (wanted: number | null, kept: number | null, variable: string): Promise<number> {
  if (wanted !== null) {
    if (await isFree(wanted)) return wanted
    throw new Complaint(`Port ${wanted} (${variable}) is taken by another program: free it or choose another.`)
  }
  if (kept !== null && await isFree(kept)) return kept
  return await newPort()
}

async function newPort (): Promise<number> {
  for (let i = 0; i < TRIES_MAX; i++) {
    const port = randomInt(PORT_MIN, PORT_MAX)
    if (await isFree(port)) return port
  }
  throw new Complaint(
    `No free port was found between ${PORT_MIN} and ${PORT_MAX}: set JETPOST_NATS_PORT and JETPOST_POSTGRES_PORT.`
  )
}
