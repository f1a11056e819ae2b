import { domainOf } from '#streams/address.ts'
import { capOn, chooseRoutes, dayOf, nextDayMs, sourcesFor } from '#streams/route/choose.ts'
import type { RouteSource, WarmUp } from '#streams/route/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import type { RecipientRef } from '#src/actions/recipient.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import type { Caps } from '#src/nats/counters.ts'
import { RetryLater } from './errors.ts'
import { OpenRoute, type OpenRouteOptions } from './open-route.ts'
import type { NoRoute } from './route.ts'
import type { NextHop } from './site.ts'
import type { Relay } from './target.ts'

/** One way that a mail may take now. */
export interface Way {
  /** The route's name; null = SMTP_URL, or the mail catcher. */
  route: string | null
  to: Relay | NextHop | NoRoute
  /** There is no other way after it. */
  isLast: boolean
  /** Nothing goes by it after all: what was counted for a warm-up is given back. */
  giveBack(): void
}

export interface WaysOptions extends OpenRouteOptions {
  /** As an operator has set them, now. */
  routes: () => Iterable<RouteEntry>
  caps: Caps
  /** SMTP_URL's way. Throws RetryLater. */
  usual: (domain: string) => Promise<Relay | NextHop | NoRoute>
  nowMs: () => number
  /** How long mail that finds all caps used up waits before it is looked at again: by then the routes may be others. */
  capMs: number
  log: Log
}

/** Sources are kept for this many recipients: a server that has put a mail off expects it from the same address. */
const KEPT_MAX = 10_000
/** When NATS does not say what is left of a cap, or no secret opens a URL, its mail looks again after this long. */
const UNKNOWN_MS = 5000

type Taken = { source: RouteSource | null, giveBack: () => void }

/** The ways of mail by the routes as they are at that moment. */
export class Ways {
  private readonly options: WaysOptions
  private readonly opened = new WeakMap<RouteEntry, OpenRoute | Error>()
  private readonly kept = new Memory<string>(KEPT_MAX)

  constructor (options: WaysOptions) {
    this.options = options
  }

  /** One after the other, the right one first; the next one is asked for when one is down. Throws RetryLater when caps
   *  or rates leave none. */
  async *of (ref: RecipientRef): AsyncGenerator<Way, void, undefined> {
    const { request: { fact: { data } }, n } = ref
    const domain = domainOf(data.recipients[n]!.address)
    const senderDomain = domainOf(data.from.address)
    const routes = chooseRoutes(this.options.routes(), {
      senderDomain,
      recipientDomain: domain,
      key: data.key,
      tags: data.tags
    })
    let retryInMs = Infinity
    for (const [i, route] of routes.entries()) {
      const isLast = i === routes.length - 1
      const way = route === null
        ? { route: null, to: await this.options.usual(domain), giveBack () {} }
        : await this.by(route, ref, domain)
      if (typeof way === 'number') retryInMs = Math.min(retryInMs, way)
      else yield { ...way, isLast }
    }
    if (retryInMs < Infinity) throw new RetryLater(retryInMs)
  }

  /** In how many ms to look again when it takes no mail now. Throws RetryLater. */
  private async by (route: RouteEntry, ref: RecipientRef, domain: string): Promise<Omit<Way, 'isLast'> | number> {
    const open = this.openOf(route)
    if (open instanceof Error) return UNKNOWN_MS
    // First the cap: mail that it refuses takes the next way, whatever the rate, and uses nothing of it.
    const taken = await this.take(route, open, ref)
    if (typeof taken === 'number') return taken
    try {
      open.begin(this.options.nowMs())
      return { route: route.name, to: await open.hopFrom(taken.source, domain), giveBack: taken.giveBack }
    } catch (error) {
      taken.giveBack()
      throw error
    }
  }

  private openOf (route: RouteEntry): OpenRoute | Error {
    const known = this.opened.get(route)
    if (known !== undefined) return known
    let open: OpenRoute | Error
    try {
      open = new OpenRoute(route, this.options)
    } catch (error) {
      open = asError(error)
      this.options.log.error({ route: route.name }, 'JETPOST_SECRET does not open the URL of the route: set it again')
    }
    this.opened.set(route, open)
    return open
  }

  /** Counts one mail of the route and of one of its sources. */
  private async take (route: RouteEntry, open: OpenRoute, ref: RecipientRef): Promise<Taken | number> {
    const ofRoute = await this.count(route.id, route.warmUp)
    if (typeof ofRoute === 'number') return ofRoute
    const taken = await this.takeSource(route, open, ref)
    if (typeof taken !== 'number') {
      return {
        source: taken.source,
        giveBack () {
          ofRoute()
          taken.giveBack()
        }
      }
    }
    ofRoute()
    return taken
  }

  private async takeSource (route: RouteEntry, open: OpenRoute, ref: RecipientRef): Promise<Taken | number> {
    const { request: { fact: { data: { email, tags } } }, n } = ref
    if (route.sources.length === 0) return { source: null, giveBack () {} }
    const name = `${route.id} ${email} ${n}`
    const kept = this.kept.get(name)
    let left = sourcesFor(route.sources, tags)
    let retryInMs = Infinity
    while (left.length > 0) {
      const source = left.find(({ address }) => address === kept) ?? open.turns.next(left)!
      const counted = await this.count(`${route.id}-${source.address.replaceAll(/[.:]/g, '_')}`, source.warmUp)
      if (typeof counted !== 'number') {
        if (route.sources.length > 1) this.kept.set(name, source.address)
        return { source, giveBack: counted }
      }
      retryInMs = Math.min(retryInMs, counted)
      left = left.filter(other => other !== source)
    }
    return retryInMs
  }

  /** What gives it back, or in how many ms to look again. */
  private async count (name: string, warmUp: WarmUp | null): Promise<(() => void) | number> {
    const { caps, nowMs, capMs } = this.options
    const atMs = nowMs()
    const day = dayOf(atMs)
    const cap = warmUp === null ? null : capOn(warmUp, day)
    if (cap === null) return () => {}
    const answer = await caps.take(name, day, cap)
    if (answer === 'unknown') return UNKNOWN_MS
    return answer === 'full' ? Math.min(capMs, nextDayMs(atMs) - atMs) : () => caps.giveBack(name, day)
  }
}
