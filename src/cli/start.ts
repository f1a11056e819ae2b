import { once } from 'node:events'
import { readConfig } from '#src/base/config.ts'
import { createLog } from '#src/base/log.ts'
import { startApp } from '#src/main.ts'
import { takeNothing, type CliCommand } from './command.ts'
import { watchKeyboard } from './start/keyboard.ts'
import { logLine } from './start/log-line.ts'
import { watchMail } from './start/mail-watch.ts'
import { firstKeyLines, welcomeLines } from './start/welcome.ts'
import { paint } from './style.ts'

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
    const log = isTerminal && process.stderr.isTTY
      ? createLog(config.logLevel, logWriter(write))
      : createLog(config.logLevel)
    const stop = stopOnSignal()
    const app = await startApp(config, {
      log,
      say: line => write(isTerminal ? paint('dim', `  · ${line}`) : line),
      onFirstKey: key => firstKeyLines(key, output).forEach(write),
      signal: stop.signal
    })
    if (isTerminal && config.roles.has('sender')) await watchMail(app.bus, stop.signal, write, log)
    welcomeLines(app, config, output).forEach(write)
    if (isTerminal) watchKeyboard({ app, config, write, stop: () => stop.abort() })
    else process.stdout.write(`${JSON.stringify({ event: 'ready', url: app.url })}\n`)
    if (!stop.signal.aborted) await once(stop.signal, 'abort')
    write(
      isTerminal
        ? '\n  Stopping: what is under way is finished first.'
        : 'Stopping: what is under way is finished first.'
    )
    await app.stop()
    log.flush()
    // Whatever was cut off may still hold a socket or a timer, and would keep the process for minutes.
    process.exit()
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
