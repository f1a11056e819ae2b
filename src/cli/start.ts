import { once } from 'node:events'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { hasDashboard, readConfig, type Config } from '#src/base/config.ts'
import { createLog } from '#src/base/log.ts'
import { startApp, type App } from '#src/main.ts'
import { takeNothing, type Command } from './command.ts'

export const start: Command = {
  usage: 'jetpost start',
  means: 'runs the service: all of it, or the roles in JETPOST_ROLES',
  async run (args) {
    takeNothing(args, start.usage)
    const config = readConfig(process.env)
    const log = createLog(config.logLevel)
    // A person reads the welcome; a program reads one line of JSON on stdout, and finds the welcome on stderr.
    const say = (line: string) => {
      ;(process.stdout.isTTY ? process.stdout : process.stderr).write(`${line}\n`)
    }
    const stop = onFirstSignal()
    const app = await startApp(config, { log, say, signal: stop.signal })
    welcome(app, config, say)
    if (!process.stdout.isTTY) process.stdout.write(`${JSON.stringify({ event: 'ready', url: app.url })}\n`)
    if (!stop.signal.aborted) await once(stop.signal, 'abort')
    say('Stopping: what is under way is finished first.')
    await app.stop()
    log.flush()
    // Whatever was cut off may still hold a socket or a timer, and would keep the process for minutes.
    process.exit()
  }
}

/** The first signal stops with grace; a second one does not wait. */
function onFirstSignal (): AbortController {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(1)
      stop.abort()
    })
  }
  return stop
}

function welcome ({ url, firstKey, signInPath, inboundPort }: App, config: Config, say: (line: string) => void): void {
  say(`\nJetpost serves at ${url}`)
  if (config.roles.has('sender') && config.smtpUrl === null) say(`Mail goes to the built-in catcher: ${url}/catcher`)
  for (const line of aboutBounces(config, inboundPort)) say(line)
  for (const line of hints(config)) say(line)
  if (!config.roles.has('api')) return
  // By http nobody would stay signed in to what is for https.
  const door = config.publicUrl.startsWith('https:') ? config.publicUrl : url
  if (signInPath !== null) {
    say(
      `\nThe dashboard, by a link that works once within 15 minutes (jetpost dashboard makes another):\n\n${door}${signInPath}`
    )
  }
  if (!hasDashboard(config)) {
    say('\nNo dashboard: JETPOST_PUBLIC_URL has a path, and the dashboard stands at the root of its host only.')
  }
  say(`\nSend a mail:\n\n${curl(url, firstKey ?? '$JETPOST_API_KEY')}\n`)
}

function aboutBounces ({ inboundHost, bounceDomain }: Config, port: number | null): string[] {
  if (port === null || bounceDomain === null) return []
  return [`Bounces come to ${bounceDomain} on ${inboundHost.includes(':') ? `[${inboundHost}]` : inboundHost}:${port}`]
}

/** What direct mode wants of an operator: a relay would see to both. */
function hints ({ roles, smtpUrl, hostname, bounceDomain }: Config): string[] {
  if (!roles.has('sender') || smtpUrl !== 'direct:') return []
  return [
    ...hostname === null
      ? ['Set JETPOST_HOSTNAME to a name whose address has it as its PTR: many servers take no mail from others.']
      : [],
    ...bounceDomain === null
      ? [
        'Set JETPOST_BOUNCE_DOMAIN and JETPOST_INBOUND_PORT: without them a bounce that comes later is heard by nobody.'
      ]
      : []
  ]
}

function curl (url: string, key: string): string {
  const body = {
    from: `Jetpost <hello@${SANDBOX_DOMAIN}>`,
    to: 'ada@example.com',
    subject: 'It works',
    html: '<h1>It works</h1>'
  }
  return `curl ${url}/api/emails \\\n  -H "Authorization: Bearer ${key}" \\\n  -H "Content-Type: application/json" \\\n  -d '${
    JSON.stringify(body)
  }'`
}
