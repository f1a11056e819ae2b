import type { FactOn } from '../catalog.ts'
import type { RouteSettings } from './facts.ts'

export interface RouteEntry extends RouteSettings {
  id: string
  name: string
  createdAt: string
}

/** Folds one fact into the routes, in place. An entry that has changed is another object: who has opened one knows by
 *  that whether it still is as it was. */
export function evolveRoutes (routes: Map<string, RouteEntry>, fact: FactOn<'route'>): void {
  if (fact.type === 'route.created') {
    const { route: id, ...settings } = fact.data
    routes.set(id, { id, createdAt: fact.time, ...settings })
    return
  }
  const { route: id, ...changed } = fact.data
  const before = routes.get(id)
  if (before === undefined) return
  if (fact.type === 'route.deleted') routes.delete(id)
  else routes.set(id, { ...before, ...changed })
}
