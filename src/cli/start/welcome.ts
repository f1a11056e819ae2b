import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { hasDashboard, type Config } from '#src/base/config.ts'
import type { App } from '#src/main.ts'
import { LogUnavailable } from '#src/nats/errors.ts'
import packageJson from '../../../package.json' with { type: 'json' }
import { linked, paint, type Style } from '../style.ts'
import { durationText } from '../text.ts'

type Paint = (style: Style, text: string) => string

/** The key of a first start: there is no second chance to read it. */
export function firstKeyLines (key: string, stream: NodeJS.WriteStream): string[] {
  return ['', `  ${paint('bold', 'API key', stream)}  ${key}`, paint('dim', '  Shown only now: keep it.', stream)]
}

/** What somebody wants to know who has just started it. */
export async function welcomeLines (app: App, config: Config, stream: NodeJS.WriteStream): Promise<string[]> {
  const color: Paint = (style, text) => paint(style, text, stream)
  const signInPath = await signInPathOf(app)
  const signIn = signInPath === null ? null : dashboardUrl(app, config) + signInPath
  return [
    '',
    `  ${color('bold', `Jetpost ${packageJson.version}`)}  ready in ${durationText(performance.now())}`,
    '',
    ...rows(app, config, signIn, stream).map(([name, text]) =>
      `  ${color('green', '➜')}  ${name.padEnd(9)}  ${color('cyan', text)}`
    ),
    ...hints(config).map(line => `  ${color('yellow', '!')}  ${line}`),
    ...(signIn === null
      ? []
      : [
        '',
        color('dim', '  Sign in to the dashboard with this link, once, within 15 minutes:'),
        color('dim', `  ${signIn}`)
      ]),
    ...(config.roles.has('api') ? ['', '  Send a mail:', '', curl(app.url, app.firstKey ?? '$JETPOST_API_KEY')] : []),
    '',
    ...(stream === process.stdout ? [color('dim', `  ${keysText(signIn !== null)}`), ''] : [])
  ]
}

/** Without NATS there is no link, and who needs one gets it later by `jetpost dashboard`. */
async function signInPathOf (app: App): Promise<string | null> {
  try {
    return await app.mintSignInPath()
  } catch (error) {
    if (error instanceof LogUnavailable) return null
    throw error
  }
}

/** By http nobody would stay signed in to what is for https. */
export function dashboardUrl ({ url }: Pick<App, 'url'>, { publicUrl }: Pick<Config, 'publicUrl'>): string {
  return publicUrl.startsWith('https:') ? publicUrl : url
}

function rows (
  app: App,
  config: Config,
  signIn: string | null,
  stream: NodeJS.WriteStream
): Array<[name: string, text: string]> {
  const { roles, smtpUrl, inboundHost, submissionHost, bounceDomain } = config
  const { url, inboundPort } = app
  const submissionPort = app.submissionPort ?? app.submissionTlsPort
  const dashboard = `${dashboardUrl(app, config)}/dashboard`
  const mailbox = roles.has('sender') && smtpUrl === null ? mailboxUrl(app, config) : null
  const all: Array<[boolean, string, string]> = [
    [roles.has('api'), 'API', `${url}/api`],
    [!roles.has('api'), 'Health', `${url}/readyz`],
    [
      roles.has('api') && hasDashboard(config),
      'Dashboard',
      signIn === null ? dashboard : linked(dashboard, signIn, stream)
    ],
    [mailbox !== null, 'Mailbox', mailbox ?? ''],
    [roles.has('api'), 'Docs', `${url}/docs`],
    [submissionPort !== null, 'SMTP', `${hostAndPort(submissionHost, submissionPort)}, the password is an API key`],
    [
      inboundPort !== null && bounceDomain !== null,
      'Bounces',
      `${bounceDomain} on ${hostAndPort(inboundHost, inboundPort)}`
    ]
  ]
  return all.filter(([isThere]) => isThere).map(([, name, text]) => [name, text])
}

function hostAndPort (host: string, port: number | null): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Where the mail is that is caught; null = nowhere that this process shows. */
function mailboxUrl (app: App, config: Config): string | null {
  const path = app.mintMailboxPath()
  if (path !== null) return app.url + path
  return config.roles.has('api') && hasDashboard(config) ? `${dashboardUrl(app, config)}/dashboard/mailbox` : null
}

/** What an operator has to do still. Direct mode needs most: a relay would see to it. */
function hints (config: Config): string[] {
  const { roles, smtpUrl, hostname, bounceDomain } = config
  const isDirect = roles.has('sender') && smtpUrl === 'direct:'
  const all: Array<[boolean, string]> = [
    [
      isDirect && hostname === null,
      'Set JETPOST_HOSTNAME to a name whose address has it as its PTR: many servers refuse mail from others.'
    ],
    [
      isDirect && bounceDomain === null,
      'Set JETPOST_BOUNCE_DOMAIN and JETPOST_INBOUND_PORT: without them, bounces that come later are lost.'
    ],
    [
      roles.has('api') && !hasDashboard(config),
      'No dashboard: JETPOST_PUBLIC_URL has a path, and the dashboard needs a host of its own.'
    ]
  ]
  return all.filter(([holds]) => holds).map(([, line]) => line)
}

function keysText (hasLink: boolean): string {
  return `${hasLink ? 'o + Enter opens the dashboard, ' : ''}q + Enter or Ctrl-C stops`
}

/** The newline within the JSON keeps it within 80 columns. */
function curl (url: string, key: string): string {
  return `curl ${url}/api/emails \\
  -H "Authorization: Bearer ${key}" \\
  -H "Content-Type: application/json" \\
  -d '{"from":"Jetpost <hello@${SANDBOX_DOMAIN}>","to":"ada@example.com",
       "subject":"It works","html":"<h1>It works</h1>"}'`
}
