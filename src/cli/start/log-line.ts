import { columnsOf, paint, type Style } from '../style.ts'
import { clockText, cut, durationText, oneLine } from '../text.ts'

/** What may stand in a line of the log, after pino has redacted it. */
interface Entry {
  level: number
  time: string
  msg?: string
  role?: string
  err?: { message?: string }
  reason?: string
  error?: string
  [field: string]: unknown
}

const INFO = 30
const WARN = 40
const ERROR = 50
/** Said otherwise, or of no use to a person. */
const SILENT = new Set(['level', 'time', 'msg', 'role', 'err', 'reason', 'error', 'correlation'])

/** A line of the log as a person reads it, one line of the terminal; null for what is not shown: mail, which has lines
 *  of its own, and what is only for the record. */
export function logLine (json: string): string | null {
  const entry = JSON.parse(json) as Entry
  if (entry.result !== undefined && entry.role === 'sender') return null
  if (entry.result !== undefined && entry.role === 'webhooks') return webhookLine(entry)
  if (entry.level === INFO) return null
  const { level, role, msg = '', err, reason = err?.message, error } = entry
  const more = Object.entries(entry).filter(([name, value]) => !SILENT.has(name) && value !== null)
  const text = [
    `${role === undefined ? '' : `${role}: `}${msg}${reason === undefined ? '' : `: ${reason}`}`,
    ...(error == null ? [] : [error]),
    ...more.map(([name, value]) => `${name}=${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
  ].join(' ')
  if (level >= ERROR) return line(entry, 'red', '✗', text)
  return level >= WARN ? line(entry, 'yellow', '!', text) : line(entry, 'dim', '·', text, 'dim')
}

function webhookLine (entry: Entry): string | null {
  const { result, host, webhook, status, error, durationMs, nextAttemptAt: next } = entry
  if (result === 'delivered') return null
  const again = typeof next === 'string' ? `, again at ${clockText(Date.parse(next))}` : ''
  const why = `${status === null ? String(error) : `answered ${String(status)}`} after ${
    durationText(Number(durationMs))
  }`
  const isOver = result === 'failed'
  return line(
    entry,
    isOver ? 'red' : 'yellow',
    isOver ? '✗' : '!',
    `webhook ${String(webhook)} ${String(host)}: ${why}${again}`
  )
}

function line ({ time }: Entry, style: Style, sign: string, text: string, textStyle?: Style): string {
  const clock = clockText(Date.parse(time))
  const rest = cut(oneLine(text), columnsOf(process.stdout) - clock.length - 3)
  return `${paint('dim', clock)} ${paint(style, sign)} ${textStyle === undefined ? rest : paint(textStyle, rest)}`
}
