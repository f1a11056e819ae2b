import { openSession, type SmtpTimeouts } from './session.ts'
import { relayShape } from './shaping.ts'
import { Site, type NextHop } from './site.ts'
import type { Relay } from './target.ts'

/** The bound on sites remembered: when it is reached, the unused site that was not needed for longest is forgotten. */
const SITES_MAX = 5000

export interface SitesOptions {
  connections: number
  hostname: string
  timeouts: SmtpTimeouts
}

/** The sites that this process knows; a relay is a site of its own. */
export class Sites {
  private readonly options: SitesOptions
  private readonly sites = new Map<NextHop['site'], Site>()
  private readonly relays = new Map<Relay, NextHop>()

  constructor (options: SitesOptions) {
    this.options = options
  }

  all (): Iterable<Site> {
    return this.sites.values()
  }

  siteOf (hop: NextHop): Site {
    const known = this.sites.get(hop.site)
    if (known !== undefined) {
      this.sites.delete(hop.site)
      this.sites.set(hop.site, known)
      return known
    }
    if (this.sites.size >= SITES_MAX) this.forgetOne()
    const site = new Site(hop)
    this.sites.set(hop.site, site)
    return site
  }

  nextHopOf (to: Relay | NextHop): NextHop {
    if ('site' in to) return to
    let hop = this.relays.get(to)
    if (hop === undefined) {
      hop = this.relayHop(to)
      this.relays.set(to, hop)
    }
    return hop
  }

  private relayHop (relay: Relay): NextHop {
    const { connections, hostname, timeouts } = this.options
    return {
      via: 'relay',
      site: relay,
      shape: relayShape(connections),
      hosts: relay.host,
      domain: '',
      accepts: () => true,
      open: () => openSession(relay, hostname, timeouts)
    }
  }

  private forgetOne (): void {
    for (const [name, site] of this.sites) if (site.isUnused()) return void this.sites.delete(name)
  }
}
