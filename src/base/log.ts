import { pino } from 'pino'

export type Log = pino.Logger

/** Whatever a careless caller logs, these never reach the output. */
const REDACTED = [
  'authorization', '*.authorization', 'req.headers.authorization', 'headers.authorization', 'secret', '*.secret', 'key', '*.key',
  'password', '*.password', 'html', '*.html', 'text', '*.text', 'body', '*.body', 'natsUrl', 'databaseUrl', 'smtpUrl', '*.natsUrl', '*.databaseUrl', '*.smtpUrl'
]

/** The process's logger: JSON lines on stderr, so that stdout keeps the ready line alone. `level` is pino's. */
export function createLog (level: string): Log {
  return pino({
    level,
    base: undefined,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: REDACTED, censor: '[redacted]' }
  }, pino.destination({ dest: 2, sync: false }))
}
