import { get } from 'node:https'
import type { LookupFunction } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Config } from '#src/base/config.ts'
import { asError } from '#src/base/errors.ts'
import { createResolver } from '#src/dns/guard.ts'

/** What a client sees at the public URL. */
export interface PublicLook {
  /** Why it is not Jetpost that answers there; null = it is. */
  fault: string | null
  /** Unix ms until which its certificate is valid; null = there is none that a client accepts. */
  certificateEndMs: number | null
}

const ANSWER_MS = 5000
/** Every answer of the API has it. */
const OURS = 'x-ratelimit-limit'

/** Asks the public URL as a client does, within 5 s: through DNS and the proxy. By http nobody is asked. */
export async function lookAtPublicUrl ({ publicUrl, dns }: Config, ca?: string): Promise<PublicLook> {
  if (!publicUrl.startsWith('https:')) return { fault: 'it is not https', certificateEndMs: null }
  const resolve = createResolver(dns)
  const lookup: LookupFunction = (host, { all }, callback) => {
    resolve(host).then(found => {
      if (found.length === 0) throw new Error(`${host} has no address`)
      if (all === true) callback(null, found)
      else callback(null, found[0]!.address, found[0]!.family)
    }).catch(error => callback(asError(error), '', 0))
  }
  const { promise, resolve: settle } = Promise.withResolvers<PublicLook>()
  const signal = AbortSignal.timeout(ANSWER_MS)
  const request = get(`${publicUrl}/api/emails`, { lookup, ca, signal, agent: false }, response => {
    const { valid_to: end } = (response.socket as TLSSocket).getPeerCertificate()
    const isOurs = response.statusCode === 401 && response.headers[OURS] !== undefined
    settle({
      fault: isOurs ? null : `something else answers there (${response.statusCode})`,
      certificateEndMs: Date.parse(end)
    })
    response.destroy()
  })
  request.on('error', error => {
    const reason = signal.aborted ? `no answer within ${ANSWER_MS / 1000} s` : error.message
    settle({ fault: reason, certificateEndMs: null })
  })
  return await promise
}
