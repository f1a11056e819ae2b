import { pino } from 'pino'

export type Log = pino.Logger

/** Never reach the output, even if a caller logs them. Whole paths only: a wildcard would check every value of every
 *  line. */
const REDACTED = [
  'authorization',
  'headers.authorization',
  'req.headers.authorization',
  'secret',
  'key',
  'password',
  'html',
  'text',
  'body',
  'natsUrl',
  'databaseUrl',
  'smtpUrl',
  'config.secret',
  'config.apiKey',
  'config.natsUrl',
  'config.databaseUrl',
  'config.smtpUrl'
]

/** The process's logger: JSON lines on stderr, so that stdout keeps the ready line alone, or to `destination`. `level`
 *  is pino's. */
export function createLog (level: string, destination: pino.DestinationStream = standardError()): Log {
  return pino({
    level,
    base: undefined,
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: REDACTED, censor: '[redacted]' }
  }, destination)
}

function standardError (): pino.DestinationStream {
  return pino.destination({ dest: 2, sync: false })
}
