import { DatabaseError, Pool as PgPool, types } from 'pg'
import { errorCode } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { searchPath } from './table-sets.ts'

/** Connections to PostgreSQL, shared by the process. */
export interface Pool extends PgPool {
  /** null when the server answers, else why it does not, in words for an operator. */
  unhealthyReason(): Promise<string | null>
}

const CONNECTIONS_MAX = 10
const CONNECT_MS = 2000
const STATEMENT_MS = 5000
/** The server ends a statement itself; this is for a server that says nothing any more. */
const SILENCE_MS = STATEMENT_MS + 1000
const IDLE_MS = 30_000

const INT8 = 20

/** Opens no connection yet. Every wait is bounded: 2 s for a connection, 5 s for a statement. */
export function createPool (databaseUrl: string, log: Log): Pool {
  const pool = new PgPool({
    ...withSearchPath(databaseUrl),
    application_name: 'jetpost',
    max: CONNECTIONS_MAX,
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: IDLE_MS,
    statement_timeout: STATEMENT_MS,
    query_timeout: SILENCE_MS,
    keepAlive: true,
    types: { getTypeParser }
  })
  // An idle connection that breaks emits an error, which would end the process if nobody listened.
  pool.on(
    'error',
    error => log.warn({ code: errorCode(error), reason: error.message }, 'postgres dropped an idle connection')
  )
  // So does one that breaks between two statements of a transaction: the next statement fails.
  pool.on('connect', client => client.on('error', () => {}))
  return Object.assign(pool, {
    unhealthyReason: () => pool.query('select 1').then(() => null, (error: Error) => `no answer: ${error.message}`)
  })
}

/** The projections' schemas, beside the options of the URL: of two `options` the driver would take the URL's alone. */
function withSearchPath (databaseUrl: string): { connectionString: string, options: string } {
  const url = URL.canParse(databaseUrl) ? new URL(databaseUrl) : null
  const given = url?.searchParams.get('options') ?? ''
  url?.searchParams.delete('options')
  return {
    connectionString: url?.href ?? databaseUrl,
    options: `${given} -c search_path=${searchPath().replaceAll(' ', '')}`.trim()
  }
}

/** bigint as number: sequences stay below 2^53. */
function getTypeParser (oid: number, format?: 'text' | 'binary'): (text: string) => unknown {
  return oid === INT8 ? Number : types.getTypeParser(oid, format as 'text')
}

/** Classes of SQLSTATE, and states, that concern the server and not the statement: connection, too many of them,
 *  shutting down or starting up, a statement timeout; and a missing database, schema or table: projections are created
 *  in the background. Source: PostgreSQL appendix A. */
const SERVER_STATES = /^(08...|53300|57P0[1-5]|57014|3D000|3F000|42P01)$/
const SOCKET_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT'
])
/** Messages of pg itself for a lost connection; it has no codes for them. */
const CLIENT_ERRORS = new RegExp(
  '^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|' +
    'Client (has encountered a connection error|was closed))'
)

/** Classes of SQLSTATE that concern the values: data exception, integrity, and program limits. */
const POISON_STATES = /^(22|23|54)/

/** True when the statement's values are at fault: it would fail again with them, and without them it would not. */
export function isPoison (error: unknown): boolean {
  return error instanceof DatabaseError && POISON_STATES.test(error.code ?? '')
}

/** Of those above, the states of a missing object. */
const MISSING = /^(3D000|3F000|42P01)$/

/** True when the projection's tables do not exist, or not yet. */
export function isMissing (error: unknown): boolean {
  return error instanceof DatabaseError && MISSING.test(error.code ?? '')
}

/** True when PostgreSQL does not answer in time, or the projection's tables do not exist yet: try again later, nothing
 *  is wrong with the statement. */
export function isUnavailable (error: unknown): boolean {
  if (error instanceof DatabaseError) return SERVER_STATES.test(error.code ?? '')
  return SOCKET_CODES.has(errorCode(error)) || (error instanceof Error && CLIENT_ERRORS.test(error.message))
}
