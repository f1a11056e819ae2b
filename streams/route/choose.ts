import { DEFAULT_ROUTE, type RouteSource, type WarmUp } from './facts.ts'
import type { RouteEntry } from './state.ts'

/** What rules look at of a mail; domains in lower case. */
export interface RoutedMail {
  senderDomain: string
  recipientDomain: string
  key: string
  tags: readonly string[]
}

/** The ways that a mail may take, the right one first, then its fallbacks; null = the default route. Names of routes
 *  that are gone are skipped. Pure. */
export function chooseRoutes (routes: Iterable<RouteEntry>, mail: RoutedMail): Array<RouteEntry | null> {
  const all = [...routes]
  const chosen = all.filter(route => fits(route, mail)).sort(byOrder)[0]
  if (chosen === undefined) return [null]
  const fallbacks = chosen.fallbacks.map(name => {
    return name === DEFAULT_ROUTE ? null : all.find(route => route.name === name)
  })
  return [chosen, ...fallbacks.filter(route => route !== undefined)]
}

function byOrder (one: RouteEntry, other: RouteEntry): number {
  return one.position - other.position || (one.id < other.id ? -1 : 1)
}

function fits ({ match }: RouteEntry, { senderDomain, recipientDomain, key, tags }: RoutedMail): boolean {
  const allows = (wanted: readonly string[], has: readonly string[]) =>
    wanted.length === 0 || wanted.some(one => has.includes(one))
  return allows(match.senderDomains, [senderDomain]) && allows(match.recipientDomains, [recipientDomain]) &&
    allows(match.keys, [key]) && allows(match.tags, tags)
}

/** The sources that a mail may have: those for one of its tags; else those for no tag; else all. Pure. */
export function sourcesFor (sources: readonly RouteSource[], tags: readonly string[]): readonly RouteSource[] {
  const named = sources.filter(source => source.tags.some(tag => tags.includes(tag)))
  if (named.length > 0) return named
  const open = sources.filter(source => source.tags.length === 0)
  return open.length > 0 ? open : sources
}

/** Takes from several in turn, each as often as its weight says. After any number of turns each is within one of its
 *  share. Source: nginx's smooth weighted round robin. */
export class WeightedTurns<T extends { weight: number }> {
  private readonly credits = new Map<T, number>()

  /** One of these, which may be other ones than the last time; undefined = of none. */
  next (among: readonly T[]): T | undefined {
    const total = among.reduce((sum, { weight }) => sum + weight, 0)
    for (const one of among) this.credits.set(one, (this.credits.get(one) ?? 0) + one.weight)
    const [first, ...others] = among
    if (first === undefined) return undefined
    const best = others.reduce((one, other) => (this.credits.get(other)! > this.credits.get(one)! ? other : one), first)
    this.credits.set(best, this.credits.get(best)! - total)
    return best
  }
}

const DAY_MS = 86_400_000

/** Days (UTC) since 1970. */
export function dayOf (ms: number): number {
  return Math.floor(ms / DAY_MS)
}

/** When the next day begins, in Unix ms. */
export function nextDayMs (ms: number): number {
  return (dayOf(ms) + 1) * DAY_MS
}

/** How many mails a warm-up lets through on a day (days since 1970); null = any number. Pure. */
export function capOn ({ from, perDay, after }: WarmUp, day: number): number | null {
  const nth = day - dayOf(Date.parse(`${from}T00:00:00Z`))
  if (nth < 0) return 0
  return nth < perDay.length ? perDay[nth]! : after
}
