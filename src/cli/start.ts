import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import type { AnyFact } from '#streams/catalog.ts'
import { isErased } from '#streams/email/erase.ts'
import type { RecipientFact } from '#streams/email/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { type Config, readConfig } from '#src/base/config.ts'
import { asError } from '#src/base/errors.ts'
import { html } from '#src/base/html.ts'
import { createLog, type Log } from '#src/base/log.ts'
import { privateFolder, writePrivateFile } from '#src/embedded/private-file.ts'
import { forgetRunning, writeRunning } from '#src/embedded/running.ts'
import { type App, startApp } from '#src/main.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence } from '#src/nats/get.ts'
import { type CliCommand, takeNothing } from './command.ts'
import { followMail, MAIL_STREAM } from './follow-mail.ts'
import { settingsToLeave } from './settings.ts'
import { dashboardUrl, firstKeyLines, welcomeLines } from './start/welcome.ts'
import { columnsOf, paint, type Style } from './style.ts'
import { clockText, cut, durationText, oneLine, pad, widthOf } from './text.ts'

/** How a fact about a recipient is shown. */
interface ShownOutcome {
  sign: string
  name: string
  style: Style
}

const OUTCOMES = new Map<string, ShownOutcome>([
  ['email.delivered', { sign: '✓', name: 'delivered', style: 'green' }],
  ['email.deferred', { sign: '…', name: 'deferred', style: 'yellow' }],
  ['email.bounced', { sign: '✗', name: 'bounced', style: 'red' }],
  ['email.failed', { sign: '✗', name: 'failed', style: 'red' }],
  ['email.in_doubt', { sign: '?', name: 'in doubt', style: 'magenta' }],
  ['email.suppressed', { sign: '-', name: 'suppressed', style: 'dim' }],
  ['email.canceled', { sign: '-', name: 'canceled', style: 'dim' }],
  ['email.opened', { sign: '·', name: 'opened', style: 'dim' }],
  ['email.clicked', { sign: '·', name: 'clicked', style: 'dim' }],
  ['email.complained', { sign: '!', name: 'complained', style: 'red' }],
  ['email.unsubscribed', { sign: '!', name: 'unsubscribed', style: 'yellow' }]
])
const NAME_WIDTH = 'delivered'.length
/** Less of a subject says nothing. */
const SUBJECT_MIN = 12
const ADDRESS_MAX = 48

/** null = not for a line of its own: what leads to another fact. */
export function outcomeOf ({ type }: AnyFact): ShownOutcome | null {
  return OUTCOMES.get(type) ?? null
}

/** `23:09:55 ✓ delivered ada@example.com "It works" 39 ms`, cut to `columns`: of the subject before all else. */
export function mailLine (fact: AnyFact, { sign, name, style }: ShownOutcome, columns: number): string {
  const { time, data } = fact as RecipientFact
  const clock = clockText(Date.parse(time))
  const state = `${sign} ${pad(name, NAME_WIDTH)}`
  const address = cut(isErased(data.to) ? '(erased)' : oneLine(data.to), ADDRESS_MAX)
  const why = oneLine(reasonOf(data))
  const room = columns - widthOf(`${clock} ${state} ${address}  ${why}`) - 2
  const subject = subjectOf(data)
  const quoted = subject === '' || room < Math.min(SUBJECT_MIN, widthOf(subject)) ? '' : `"${cut(subject, room)}"`
  const rest = cut(
    [address, quoted, why].filter(text => text !== '').join(' '),
    columns - widthOf(`${clock} ${state} `)
  )
  return `${paint('dim', clock)} ${paint(style, state)} ${rest}`
}

/** As its event has it; '' for a fact without one. */
function subjectOf (data: RecipientFact['data']): string {
  return 'event' in data ? oneLine(String(JSON.parse(data.event).data?.subject ?? '')) : ''
}

/** The server's words or ours; of a delivery how long it took. */
function reasonOf (data: RecipientFact['data']): string {
  const { reply, error, detail, reason, class: kind, cause, ms, nextAttemptAt: next } = data as
    & Record<string, unknown>
    & { reply?: { text: string } | null, ms?: number, nextAttemptAt?: string | null }
  if (kind === undefined && reason === undefined && ms !== undefined) return durationText(ms)
  const why = reply?.text ?? error ?? detail ?? reason ?? kind ??
    (cause === undefined ? '' : `the ${String(cause)} was lost`)
  return `${next == null ? '' : `again at ${clockText(Date.parse(next))}: `}${String(why)}`
}

/** More would scroll by unread, and a terminal that is slow holds the process up. */
const LINES_MAX_PER_S = 20

/** Shows what happens to mail from now on, a line each, until `signal` is aborted. Read from the log of facts: the
 *  process's own log names no recipient and no subject. */
async function watchMail (
  bus: Bus,
  signal: AbortSignal,
  write: (line: string) => void,
  log: Log
): Promise<void> {
  const onError = (err: Error) => log.warn({ err }, 'mail cannot be shown')
  const show = limited(write, signal)
  const watch = async (afterSeq: number) => {
    for await (const batch of followMail(bus, { afterSeq, signal, onError })) for (const { fact } of batch) show(fact)
  }
  const afterSeq = await lastSequence(bus, MAIL_STREAM)
  watch(afterSeq).catch(error => onError(asError(error)))
}

/** Of what is too much for one second only the sum. */
function limited (write: (line: string) => void, signal: AbortSignal) {
  let shown = 0
  const left = new Map<string, number>()
  const timer = setInterval(() => {
    shown = 0
    if (left.size === 0) return
    const sums = [...left].map(([name, count]) => `${count} ${name}`).join(', ')
    left.clear()
    write(`${paint('dim', clockText(Date.now()))} … and ${sums}`)
  }, 1000)
  signal.addEventListener('abort', () => clearInterval(timer))
  return (fact: Parameters<typeof mailLine>[0]) => {
    const outcome = outcomeOf(fact)
    if (outcome === null) return
    if (shown++ < LINES_MAX_PER_S) return write(mailLine(fact, outcome, columnsOf(process.stdout)))
    left.set(outcome.name, (left.get(outcome.name) ?? 0) + 1)
  }
}

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
  const entry = entryIn(json)
  if (entry === null) return oneLine(json)
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

/** null = not of the log: a second process whose last words these are, or Node's own. */
function entryIn (line: string): Entry | null {
  try {
    return JSON.parse(line) as Entry
  } catch {
    return null
  }
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

interface KeyboardOptions {
  app: App
  config: Config
  write(line: string): void
  stop(): void
}

/** Obeys what is typed, a line each: `o` opens the dashboard, `q` stops. The terminal stays as it is: Ctrl-C, Ctrl-Z
 *  and scrolling work as ever, and nothing has to be restored if the process is killed. */
function watchKeyboard ({ app, config, write, stop }: KeyboardOptions): void {
  if (!process.stdin.isTTY) return
  const onLine = (line: string) => {
    const key = line.trim().toLowerCase()
    if (key === 'q') stop()
    if (key === 'o') {
      openDashboard(app, config, write).catch(error => write(`  No link could be made: ${asError(error).message}`))
    }
  }
  createInterface({ input: process.stdin, terminal: false }).on('line', onLine)
  // Who reads a terminal in the background is stopped by it.
  const readInForeground = () => (isForeground() ? process.stdin.resume() : process.stdin.pause())
  process.on('SIGCONT', readInForeground)
  readInForeground()
}

/** Is this process one that its terminal listens to? Not after `&` or `bg`; where nobody can tell, no. */
function isForeground (): boolean {
  try {
    if (process.platform !== 'linux') {
      return execFileSync('ps', ['-o', 'stat=', '-p', String(process.pid)], { encoding: 'utf8' }).includes('+')
    }
    // Source: proc_pid_stat(5): pgrp and tpgid. The name before them may hold blanks and brackets.
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)!.split(' ')
    return fields[2] === fields[5]
  } catch {
    return false
  }
}

const OPEN_MS = 10_000

async function openDashboard (app: App, config: Config, write: (line: string) => void): Promise<void> {
  const path = await app.mintSignInPath()
  if (path === null) return write('  There is no dashboard, or no key that opens it.')
  const url = dashboardUrl(app, config) + path
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open'
  execFile(opener, [redirectPage(config.dataDir, url)], { timeout: OPEN_MS }, error => {
    if (error !== null) write(`  No browser could be opened (${opener}). The link: ${url}`)
  })
}

/** A page that leads to `url`, for its owner alone: everybody on the machine can read the arguments of a program, and
 *  the link signs in the first who opens it. */
function redirectPage (dataDir: string, url: string): string {
  const path = resolve(join(dataDir, 'open-dashboard.html'))
  privateFolder(dataDir)
  writePrivateFile(path, html`<!doctype html><meta http-equiv="refresh" content="0; url=${url}">`.text)
  return pathToFileURL(path).href
}

export const start: CliCommand = {
  usage: 'jetpost start',
  details:
    `  On a terminal: an overview, a line for each mail, and for each warning. Elsewhere: {"event":"ready","url":…}
  on stdout once it serves; the overview and a log of JSON lines on stderr.`,
  async run (args) {
    takeNothing(args, start)
    const config = readConfig(process.env)
    const isTerminal = process.stdout.isTTY === true
    const output = isTerminal ? process.stdout : process.stderr
    const write = (line: string) => void output.write(`${line}\n`)
    const isShown = isTerminal && process.stderr.isTTY
    const shown = logWriter(write)
    const log = createLog(config.logLevel, isShown ? shown : undefined)
    const stop = stopOnSignal()
    const app = await startApp(config, {
      log,
      say: line => write(isTerminal ? paint('dim', `  · ${line}`) : line),
      onFirstKey: key => firstKeyLines(key, output).forEach(write),
      signal: stop.signal,
      environment: process.env,
      onWorkersLog: isShown ? shown.write : undefined
    })
    await leaveNote(app, config, log)
    if (isTerminal && config.roles.has('sender')) await watchMail(app.bus, stop.signal, write, log)
    for (const line of await welcomeLines(app, config, output)) write(line)
    if (isTerminal) watchKeyboard({ app, config, write, stop: () => stop.abort() })
    else process.stdout.write(`${JSON.stringify({ event: 'ready', url: app.url })}\n`)
    if (!stop.signal.aborted) await once(stop.signal, 'abort')
    write(
      isTerminal
        ? '\n  Stopping: what is under way is finished first.'
        : 'Stopping: what is under way is finished first.'
    )
    forgetRunning(config.dataDir)
    await app.stop()
    log.flush()
    // Whatever was cut off may still hold a socket or a timer, and would keep the process for minutes.
    process.exit()
  }
}

/** For the commands of this machine: without it they need the settings in their own environment. */
async function leaveNote ({ url, keyIds }: App, { dataDir, roles }: Config, log: Log): Promise<void> {
  if (!roles.has('api')) return
  try {
    // No address of its own, and not every system takes it for the loopback.
    const local = url.replace('//[::]', '//[::1]')
    await writeRunning(dataDir, { url: local, startedAt: timestamp(Date.now()), keyIds, ...settingsToLeave() })
  } catch (err) {
    log.warn({ err }, 'commands cannot find this service: the data folder cannot be written')
  }
}

/** Where the log goes on a terminal: a short line for a person. */
function logWriter (write: (line: string) => void) {
  return {
    write (json: string) {
      const line = logLine(json)
      if (line !== null) write(line)
    }
  }
}

/** The first signal stops with grace; a second one does not wait. */
function stopOnSignal (): AbortController {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(1)
      stop.abort()
    })
  }
  return stop
}
