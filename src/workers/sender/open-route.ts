import { WeightedTurns } from '#streams/route/choose.ts'
import { DIRECT, type RouteSource } from '#streams/route/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { RetryLater } from './errors.ts'
import { Pace } from './pace.ts'
import type { MxRouter, NoRoute } from './route.ts'
import { openSession, type SmtpTimeouts } from './session.ts'
import { relayShape } from './shaping.ts'
import type { NextHop } from './site.ts'
import { parseTarget } from './target.ts'

/** From where a direct route sends, and what its sites have to themselves. */
export interface Departure {
  source: string | null
  hostname: string
  apart: { name: string, connections: number | null }
}

export interface OpenRouteOptions {
  /** The URL whole. Throws when no secret opens it. */
  urlOf: (route: RouteEntry) => string
  /** A router whose sites are those of this departure alone. */
  routerFrom: (departure: Departure) => MxRouter
  /** Of a route that does not say. */
  connections: number
  hostname: string
  timeouts: SmtpTimeouts
  random: () => number
}

/** Tells routes that were opened apart: one that has changed begins with sites of its own. */
let opened = 0

/** A route as it was when it was opened: a changed one is opened again. */
export class OpenRoute {
  readonly turns = new WeightedTurns<RouteSource>()
  private readonly route: RouteEntry
  private readonly options: OpenRouteOptions
  private readonly name: string
  private readonly hops: Map<RouteSource | null, NextHop>
  private readonly routers = new Map<RouteSource | null, MxRouter>()
  /** Of all sites of a direct route together; a relay's site has it itself. */
  private readonly pace: Pace

  /** Throws like `urlOf`. */
  constructor (route: RouteEntry, options: OpenRouteOptions) {
    this.route = route
    this.options = options
    this.name = `route ${route.name} ${opened++}`
    const sources = route.sources.length === 0 ? [null] : route.sources
    this.hops = route.url === DIRECT ? new Map() : this.relayHops(sources)
    const rate = { messagesPerSecond: route.messagesPerSecond ?? Infinity }
    this.pace = new Pace({ ...relayShape(options.connections), ...rate }, false)
  }

  /** Where mail for a domain goes from one of the route's sources. Throws RetryLater. */
  async hopFrom (source: RouteSource | null, domain: string): Promise<NextHop | NoRoute> {
    return this.hops.get(source) ?? await this.routerOf(source).route(domain)
  }

  /** Begins a mail of a direct route. Throws RetryLater when there are too many a second. */
  begin (nowMs: number): void {
    if (this.route.url !== DIRECT) return
    if (this.pace.messageWaitMs(nowMs) > 0) throw new RetryLater(this.pace.reserve(nowMs, this.options.random))
    this.pace.messageBegun(nowMs)
  }

  private relayHops (sources: ReadonlyArray<RouteSource | null>): Map<RouteSource | null, NextHop> {
    const { urlOf, timeouts } = this.options
    const relay = parseTarget(urlOf(this.route))
    const connections = Math.min(this.route.connections ?? Infinity, this.options.connections)
    const rate = this.route.messagesPerSecond ?? Infinity
    const shape = { ...relayShape(connections), messagesPerSecond: rate }
    return new Map(sources.map(source => {
      const { address, hostname } = this.departureOf(source)
      const target = { ...relay, source: address }
      return [source, {
        via: 'relay',
        site: this.name,
        shape,
        hosts: address === null ? relay.host : `${relay.host} from ${address}`,
        domain: '',
        accepts: session => session.source === address,
        open: () => openSession(target, hostname, timeouts)
      }]
    }))
  }

  private routerOf (source: RouteSource | null): MxRouter {
    const known = this.routers.get(source)
    if (known !== undefined) return known
    const { address, hostname } = this.departureOf(source)
    const apart = { name: `${this.name} ${address ?? ''}`, connections: this.route.connections }
    const router = this.options.routerFrom({ source: address, hostname, apart })
    this.routers.set(source, router)
    return router
  }

  private departureOf (source: RouteSource | null): { address: string | null, hostname: string } {
    return {
      address: source?.address ?? null,
      hostname: source?.hostname ?? this.route.hostname ?? this.options.hostname
    }
  }
}
