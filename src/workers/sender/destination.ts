import { domainOf } from '#streams/address.ts'
import { isSandbox } from '#streams/suppression/decide.ts'
import type { Log } from '#src/base/log.ts'
import type { Dns } from '#src/dns/resolve.ts'
import { createAddressBook } from './addresses.ts'
import type { DeliverOptions } from './deliver.ts'
import { createPolicies } from './mta-sts.ts'
import { createOpenMx, type PolicyFault } from './mx.ts'
import { createRouter, type Route, type RouteTimings } from './route.ts'
import type { SmtpTimeouts } from './session.ts'
import { parseTarget } from './target.ts'

/** Whom to trust in place of the well-known authorities, and where MTA-STS policies are served. */
export interface Trust {
  ca: string
  policyPort: number
  policyLookAgainMs: number
}

export interface DestinationOptions {
  smtpUrl: string | null
  catcherUrl: string
  dns: Dns
  mxPort: number
  mxAllowPrivate: boolean
  hostname: string
  timeouts: SmtpTimeouts
  routeTimings: RouteTimings
  nowMs: () => number
  /** Aborted when the sender is told to stop. */
  stopping: AbortSignal
  random: () => number
  log: Log
  onPolicyFault?: (fault: PolicyFault) => void
  trust?: Trust
}

/** Where each recipient's mail goes: the relay, the MX hosts of its domain, or the catcher. */
export function createDestinations (options: DestinationOptions): DeliverOptions['destinationOf'] {
  const { smtpUrl, catcherUrl } = options
  const catcher = parseTarget(catcherUrl)
  const route = smtpUrl === 'direct:' ? createDirect(options) : null
  const relay = smtpUrl === null || route !== null ? catcher : parseTarget(smtpUrl)
  return async ({ request: { fact: { data } }, n }) => {
    const { address } = data.recipients[n]!
    if (data.test || isSandbox(address)) return catcher
    return route === null ? relay : await route(domainOf(address))
  }
}

function createDirect (options: DestinationOptions): Route {
  const { dns, hostname, timeouts, nowMs, stopping, random, log, onPolicyFault = () => {}, trust } = options
  const shared = { allowPrivate: options.mxAllowPrivate, nowMs, stopping, log, ca: trust?.ca }
  const open = createOpenMx({
    ...shared,
    addressesOf: createAddressBook(dns, nowMs),
    port: options.mxPort,
    hostname,
    timeouts,
    random,
    onPolicyFault
  })
  const policies = createPolicies({ ...shared, dns, port: trust?.policyPort, lookAgainMs: trust?.policyLookAgainMs })
  return createRouter({ dns, policies, open, hostname, nowMs, timings: options.routeTimings })
}
