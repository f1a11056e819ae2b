import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import {
  countFault,
  decideRouteChange,
  decideRouteDeletion,
  nameFault,
  partUrl,
  settingsFault,
  type RouteDecision
} from '#streams/route/decide.ts'
import { RouteCreated, type RouteSettings } from '#streams/route/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { newId } from '#src/base/id.ts'
import { askedBy, stamp } from './fact-log.ts'
import { createEntity, handleCommand, type CommandServices, type Handled } from './handle-command.ts'
import type { Commander, Services } from './services.ts'

/** A route as an operator writes it: its URL whole, with user and password. */
export type WantedRoute = Omit<RouteSettings, 'sealedUrl'>

export type RouteServices = CommandServices & Pick<Services, 'vault'>

/** Makes a route. Refuses `invalid_…` and `too_many_routes`, and never repeats the URL. Throws LogUnavailable. */
export async function createRoute (
  services: RouteServices,
  by: Commander,
  { name, url, ...settings }: WantedRoute & { name: string }
): Promise<Handled<'route'> | Refusal> {
  const { directory, factLog: { clock } } = services
  const others = [...directory.now.routes.values()]
  const fault = nameFault(name, others) ?? countFault(others.length)
  if (fault !== null) return fault
  const nowMs = clock.nowMs()
  const id = newId('rt', nowMs)
  const sealed = sealUrl(services, id, url)
  if (sealed instanceof Refusal) return sealed
  const data = { route: id, name, ...settings, ...sealed }
  const wrong = settingsFault(name, data, others.map(other => other.name))
  if (wrong !== null) return wrong
  return await createEntity(services, 'route', id, stamp(RouteCreated, causeOf(by), data, nowMs))
}

/** Changes what is given; what waits goes by the route as it is then. Refuses as above, and `not_found`. Throws
 *  LogUnavailable or Conflict. */
export async function changeRoute (
  services: RouteServices,
  by: Commander,
  id: string,
  { url, ...settings }: Partial<WantedRoute>
): Promise<Handled<'route'> | Refusal> {
  const sealed = url === undefined ? {} : sealUrl(services, id, url)
  if (sealed instanceof Refusal) return sealed
  const changes = { ...settings, ...sealed }
  return await change(services, by, id, route => {
    const names = [...services.directory.now.routes.values()].map(({ name }) => name)
    return settingsFault(route.name, { ...route, ...changes }, names) ?? decideRouteChange(route, changes)
  })
}

/** Ends a route; what waits for it goes by the rules that are left. Refuses `not_found`. Throws LogUnavailable or
 *  Conflict. */
export async function deleteRoute (
  services: CommandServices,
  by: Commander,
  id: string
): Promise<Handled<'route'> | Refusal> {
  return await change(services, by, id, decideRouteDeletion)
}

/** The URL that mail goes to, whole. Throws CannotOpen. */
export function urlOfRoute ({ vault }: Pick<Services, 'vault'>, { id, url, sealedUrl }: RouteEntry): string {
  return sealedUrl === null ? url : vault.open(sealedUrl, id)
}

function sealUrl (
  { vault }: RouteServices,
  id: string,
  text: string
): Pick<RouteSettings, 'url' | 'sealedUrl'> | Refusal {
  const parts = partUrl(text)
  if (parts instanceof Refusal) return parts
  const { url, secretUrl } = parts
  return { url, sealedUrl: secretUrl === null ? null : vault.seal(secretUrl, id) }
}

async function change (
  services: CommandServices,
  by: Commander,
  id: string,
  decide: (route: RouteEntry) => RouteDecision[] | Refusal
): Promise<Handled<'route'> | Refusal> {
  return await handleCommand(
    services,
    'route',
    id,
    causeOf(by),
    route => route === undefined ? new Refusal('not_found', `There is no route ${id}.`) : decide(route)
  )
}

/** Routes are the installation's. */
function causeOf (by: Commander) {
  return askedBy({ ...by, account: FIRST_ACCOUNT })
}
