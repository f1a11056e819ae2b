import { ROUTES_MAX } from '#streams/route/decide.ts'
import { POSITION_MAX, ROUTE_URL_LENGTH_MAX } from '#streams/route/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { changeRoute, createRoute, deleteRoute, type WantedRoute } from '#src/actions/route.ts'
import type { Services } from '#src/actions/services.ts'
import { Complaint } from '#src/base/errors.ts'
import { routeAnswer, ROUTE_DEFAULTS } from '#src/servers/api/mail-routes.ts'
import { misused, noVerb, readArgs, takeOnly, usageError, type CliCommand } from './command.ts'
import { bytesOf } from './input.ts'
import { granted, withServices } from './open-services.ts'
import { matchOf, ROUTE_OPTIONS, settingsOf, type RouteValues } from './route-settings.ts'
import { print } from './table.ts'

const VERBS = ['list', 'show', 'create', 'change', 'delete']

export const routes: CliCommand = {
  usage: `jetpost routes [list] [--json]
jetpost routes show <name> [--json]
jetpost routes create <name> --url <url> [options] [--json]
jetpost routes change <name> [options] [--json]
jetpost routes delete <name> [--json]`,
  details: `  The ways that outgoing mail takes, at most ${ROUTES_MAX}; what none takes goes by SMTP_URL.
  --url               the relay, as in SMTP_URL; direct: = the MX hosts; - = read it from standard input, so that
                      its password stands in no list of processes
  --position          0 to ${POSITION_MAX}: of the routes that fit, the lowest takes the mail
  --sender-domain, --key, --tag, --recipient-domain
                      the mail that it takes: of each that is given, one must fit
  --fallback          a route that takes its mail while it is down; default = SMTP_URL
  --source            an address to send from: 192.0.2.1,weight=3,tag=bulk,hostname=mx1.example.com,warm-up=…
  --hostname          our name in EHLO
  --rate, --connections
                      the most mails a second, and connections, from one sender
  --warm-up           a day, and the most mails of each day from then on: 2026-12-01/50/100/500, and /then=500
  Sources, fallbacks and what it takes may be given several times; none empties a setting.`,
  async run (args) {
    const { positionals: [verb = 'list', name, ...more], values, given } = readArgs(args, ROUTE_OPTIONS)
    const { json } = values
    if (!VERBS.includes(verb)) throw noVerb(routes, 'routes', verb, VERBS)
    const takes = verb === 'create' || verb === 'change' ? Object.keys(ROUTE_OPTIONS) : []
    takeOnly(given, [...takes, 'json'], `routes ${verb}`)
    if (verb === 'list' && name === undefined) return await list(json)
    if (verb === 'list' || name === undefined || more.length > 0) throw misused(routes)
    const url = values.url === undefined ? undefined : await urlIn(values.url)
    const shown = await withServices(async (services, by) => {
      if (verb === 'create') return granted(await createRoute(services, by, newRoute(name, url, values))).route
      const route = named(services, name)
      if (verb === 'show') return route
      if (verb === 'delete') return granted(await deleteRoute(services, by, route.id)).route
      const changes = {
        ...settingsOf(values),
        match: matchOf(values, route.match),
        ...(url === undefined ? {} : { url })
      }
      return granted(await changeRoute(services, by, route.id, changes)).route
    })
    if (verb === 'delete') return print([{ id: shown.id, name, deleted: true }], json)
    print([json ? routeAnswer(shown) : rowOf(shown)], json)
  }
}

async function urlIn (text: string): Promise<string> {
  return text === '-' ? (await bytesOf('-', ROUTE_URL_LENGTH_MAX + 2)).toString().trim() : text
}

function newRoute (name: string, url: string | undefined, values: RouteValues): WantedRoute & { name: string } {
  if (url === undefined) throw usageError('--url is required: a relay, or direct:.')
  return { ...ROUTE_DEFAULTS, ...settingsOf(values), match: matchOf(values, ROUTE_DEFAULTS.match), name, url }
}

function named (services: Services, name: string): RouteEntry {
  const route = [...services.directory.now.routes.values()].find(route => route.name === name)
  if (route === undefined) throw new Complaint(`There is no route ${name}.`)
  return route
}

async function list (json: boolean): Promise<void> {
  const all = await withServices(async services => [...services.directory.now.routes.values()])
  const sorted = all.sort((one, other) => one.position - other.position || (one.id < other.id ? -1 : 1))
  print(sorted.map(route => (json ? routeAnswer(route) : rowOf(route))), json)
}

function rowOf ({ name, position, url, match, fallbacks, sources }: RouteEntry) {
  const takes = [
    ...match.senderDomains.map(domain => `from ${domain}`),
    ...match.keys,
    ...match.tags.map(tag => `tag ${tag}`),
    ...match.recipientDomains.map(domain => `to ${domain}`)
  ]
  return {
    name,
    position,
    url,
    takes: takes.length === 0 ? 'all' : takes.join(', '),
    fallbacks: fallbacks.join(', '),
    sources: sources.map(({ address }) => address).join(', ')
  }
}
