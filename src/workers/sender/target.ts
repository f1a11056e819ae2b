import { TLS_MODES } from '#streams/route/decide.ts'
import { Complaint } from '#src/base/errors.ts'

type TlsMode = typeof TLS_MODES[number]

/** A server to hand mail to. */
export interface Target {
  /** Its name, in certificates and facts. */
  host: string
  /** Where to connect; null = wherever the name leads. */
  address: string | null
  port: number
  /** Our address to connect from; null = whichever the system takes. */
  source: string | null
  /** TLS from the first byte. */
  secure: boolean
  tls: TlsMode
  /** Whether the certificate must be good. */
  verify: boolean
  /** PEM of the authority to trust in place of the well-known ones. */
  ca: string | undefined
  auth: { user: string, pass: string } | null
}

/** The operator's own relay: everything goes through it. */
export interface Relay extends Target {
  via: 'relay'
}

/** Reads `smtp[s]://[user:password@]host[:port][?tls=…]`; throws a Complaint that never shows the URL, since it holds a
 *  password. */
export function parseTarget (url: string): Relay {
  const parsed = URL.parse(url)
  const secure = parsed?.protocol === 'smtps:'
  if (parsed === null || parsed.hostname === '' || !(secure || parsed.protocol === 'smtp:')) {
    throw new Complaint('SMTP_URL must look like smtp://user:password@host:587, or smtps://… for TLS from the start.')
  }
  const auth = parsed.username === ''
    ? null
    : { user: decodeURIComponent(parsed.username), pass: decodeURIComponent(parsed.password) }
  const tls = tlsMode(parsed.searchParams, secure || auth !== null)
  return {
    via: 'relay',
    host: parsed.hostname.replaceAll(/[[\]]/g, ''),
    address: null,
    source: null,
    port: parsed.port === '' ? (secure ? 465 : auth === null ? 25 : 587) : Number(parsed.port),
    secure,
    tls,
    // Any encryption is better than none when nothing else is at stake. A password goes to none but the named host, and
    // in plaintext only when the URL says `off`, or `opportunistic` (then an attacker on the line can strip the offer
    // of TLS).
    verify: tls === 'required' || (tls === 'opportunistic' && auth !== null),
    ca: undefined,
    auth
  }
}

function tlsMode (options: URLSearchParams, guarded: boolean): TlsMode {
  for (const name of options.keys()) {
    if (name !== 'tls') throw new Complaint(`SMTP_URL has an option ${name} that Jetpost does not know; it knows tls.`)
  }
  const mode = options.get('tls') ?? (guarded ? 'required' : 'opportunistic')
  if (!(TLS_MODES as readonly string[]).includes(mode)) {
    throw new Complaint(`SMTP_URL: tls is one of ${TLS_MODES.join(', ')}.`)
  }
  return mode as TlsMode
}
