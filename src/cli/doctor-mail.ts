import { hostname } from 'node:os'
import { isSpf } from '#streams/domain/records.ts'
import type { Config } from '#src/base/config.ts'
import { mailWarnings, type SendingDomain } from '#src/base/mail-links.ts'
import { DnsUnavailable, openDns, type ReverseDns } from '#src/dns/resolve.ts'
import { openCertificate } from '#src/base/certificate.ts'
import { HostFailure } from '#src/workers/sender/errors.ts'
import { openSession, quitSession, SMTP_TIMEOUTS } from '#src/workers/sender/session.ts'
import { parseTarget } from '#src/workers/sender/target.ts'
import { oneLine } from './text.ts'

export interface Check {
  name: string
  /** null = unknown. */
  ok: boolean | null
  says: string
}

/** Of a setting with a secret that the running service has in its own environment. */
export function withheld (setting: string): string {
  return `unknown: the running service has a ${setting} of its own, set the same one here to check it`
}

type MailFinding = Omit<Check, 'name'>

/** A person waits for the answer. */
const STEP_MS = 5000

/** Whether mail gets out, and whether bounces reach us; `missing` = settings that only the service knows. Within
 *  20 s. */
export async function examineMail (config: Config, missing: string[] = []): Promise<Check[]> {
  const dns = openDns(config.dns)
  const known = knownMail(config, missing)
  const [smtp, spf, inbound] = await Promise.all([
    known === config ? examineSmtp(config, dns) : [{ ok: null, says: withheld('SMTP_URL') }],
    examineSpf(known, dns),
    examineInbound(config, dns)
  ])
  return [
    together('smtp', smtp),
    examineLinks(config, missing, null),
    together('spf', [spf]),
    together('inbound', inbound),
    together('submission', await examineSubmission(config))
  ]
}

/** A relay that only the service knows is one all the same. */
function knownMail (config: Config, missing: string[]): Config {
  return missing.includes('SMTP_URL') ? { ...config, smtpUrl: 'smtp://of-the-service' } : config
}

/** Whether what is in a mail works for its readers. `domains` null = unknown, as without a running Jetpost. */
export function examineLinks (
  config: Config,
  missing: string[],
  domains: Iterable<SendingDomain> | null
): Check {
  const known = knownMail(config, missing)
  const warnings = mailWarnings(known, domains)
  const fine = known.smtpUrl === null ? 'for the mail catcher' : config.trackingUrl
  return together(
    'links',
    warnings.length === 0
      ? [{ ok: true, says: fine }]
      : warnings.map(({ what, why }) => ({ ok: null, says: `${what}. ${why}` }))
  )
}

/** Of the domain that return paths are on. Whom it allows depends on the address that mail leaves from. */
async function examineSpf ({ smtpUrl, bounceDomain }: Config, dns: ReverseDns): Promise<MailFinding> {
  if (smtpUrl === null) return { ok: true, says: 'for the mail catcher' }
  if (bounceDomain === null) {
    return { ok: true, says: 'JETPOST_BOUNCE_DOMAIN is unset: the SPF record of each sending domain counts' }
  }
  const name = `JETPOST_BOUNCE_DOMAIN ${bounceDomain}`
  try {
    const [found, another] = (await dns.txt(bounceDomain)).filter(isSpf)
    if (found === undefined) {
      return { ok: false, says: `${name} has no SPF record: publish one that allows the address that mail leaves from` }
    }
    if (another === undefined) return { ok: true, says: oneLine(`${bounceDomain} has ${found}`) }
    return { ok: false, says: `${name} must have one SPF record only: receivers that find several apply none` }
  } catch (error) {
    return unknown(`the SPF record of ${name}`, error)
  }
}

/** The worst of them decides; beside it, what is well is left out. */
function together (name: string, findings: MailFinding[]): Check {
  const wrong = findings.filter(({ ok }) => ok !== true)
  const ok = findings.some(finding => finding.ok === false) ? false : wrong.length > 0 ? null : true
  return { name, ok, says: (wrong.length > 0 ? wrong : findings).map(({ says }) => says).join('; ') }
}

async function examineSmtp ({ smtpUrl, hostname: name }: Config, dns: ReverseDns): Promise<MailFinding[]> {
  if (smtpUrl === null) return [{ ok: true, says: 'mail goes to the mail catcher' }]
  if (smtpUrl !== 'direct:') return [await examineRelay(smtpUrl, name ?? hostname())]
  if (name === null) {
    return [{
      ok: false,
      says: `JETPOST_HOSTNAME is unset, so EHLO says ${hostname()}: set it to a name whose address has it as its PTR`
    }]
  }
  return await examineName(name, dns)
}

/** As the sender does it: greeting, EHLO, TLS and login. No error shows the URL, since it contains a password. */
async function examineRelay (url: string, name: string): Promise<MailFinding> {
  try {
    const target = parseTarget(url)
    const session = await openSession(target, name, {
      ...SMTP_TIMEOUTS,
      connectMs: STEP_MS,
      greetingMs: STEP_MS,
      commandMs: STEP_MS
    })
    quitSession(session)
    const tls = session.tls === null
      ? 'without TLS'
      : `${session.tls.version}${session.tls.verified ? '' : ', not verified'}`
    return {
      ok: true,
      says: `${target.host}:${target.port} answers, ${tls}${target.auth === null ? '' : ', logged in'}`
    }
  } catch (error) {
    return {
      ok: false,
      says: error instanceof HostFailure ? oneLine(`${error.host}: ${error.message}`) : (error as Error).message
    }
  }
}

/** Many servers accept mail only from an address whose name leads back to it. Whether port 25 is open outward, and
 *  which address we send from, only a mail shows. */
async function examineName (name: string, dns: ReverseDns): Promise<MailFinding[]> {
  try {
    const { addresses = [] } = await dns.addresses(name) ?? {}
    if (addresses.length === 0) return [{ ok: false, says: `JETPOST_HOSTNAME ${name} has no address` }]
    return await Promise.all(addresses.map(async address => await examineAddress(address, name, dns)))
  } catch (error) {
    return [unknown(`the address of JETPOST_HOSTNAME ${name}`, error)]
  }
}

async function examineAddress (address: string, name: string, dns: ReverseDns): Promise<MailFinding> {
  try {
    const names = await dns.names(address)
    if (names.includes(name.toLowerCase().replace(/\.$/, ''))) {
      return { ok: true, says: `straight to the recipients' servers: ${name} is ${address}, whose PTR is ${name}` }
    }
    return {
      ok: false,
      says: `JETPOST_HOSTNAME ${name} is ${address}, whose PTR is ${
        names.length === 0 ? 'missing' : oneLine(names.join(', '))
      }`
    }
  } catch (error) {
    return unknown(`the PTR of ${address}`, error)
  }
}

async function examineInbound (config: Config, dns: ReverseDns): Promise<MailFinding[]> {
  const { inboundPort: port, bounceDomain } = config
  if (port === null && bounceDomain === null) return [nothingBack(config)]
  const noDomain = {
    ok: false,
    says: `JETPOST_INBOUND_PORT is ${port} and JETPOST_BOUNCE_DOMAIN is unset: no mail has a return path to it`
  }
  return [
    ...port === null ? [] : [await examineCertificate(config)],
    bounceDomain === null ? noDomain : await examineMx(bounceDomain, dns)
  ]
}

/** A relay gets the bounces in our place; in direct mode nobody does. */
function nothingBack ({ smtpUrl }: Config): MailFinding {
  if (smtpUrl !== 'direct:') return { ok: true, says: 'off: JETPOST_INBOUND_PORT and JETPOST_BOUNCE_DOMAIN are unset' }
  return {
    ok: null,
    says: 'JETPOST_INBOUND_PORT and JETPOST_BOUNCE_DOMAIN are unset: bounces that come later are lost'
  }
}

/** Clients of SMTP check the certificate, unless they are told not to. */
async function examineSubmission (config: Config): Promise<MailFinding[]> {
  const { roles, submissionPort: port, submissionTlsPort: tlsPort, submissionPlainNetworks: plain } = config
  if (!roles.has('submission') || (port === null && tlsPort === null)) {
    return [{ ok: true, says: 'off: JETPOST_SUBMISSION_PORT is unset' }]
  }
  const ports = [port === null ? '' : `${port} with STARTTLS`, tlsPort === null ? '' : `${tlsPort} with TLS`]
  const certificate = await examineCertificate(config)
  return [
    { ok: true, says: `SMTP for clients on port ${ports.filter(text => text !== '').join(' and port ')}` },
    certificate,
    ...plain.length === 0
      ? []
      : [{ ok: null, says: `${plain.join(', ')} may log in without TLS: their traffic shows the API key` }]
  ]
}

async function examineCertificate ({ tlsCert, tlsKey, hostname: name, bounceDomain }: Config): Promise<MailFinding> {
  if (tlsCert === null && tlsKey === null) return { ok: true, says: 'a self-signed certificate' }
  try {
    await openCertificate({ tlsCert, tlsKey, hostname: name ?? bounceDomain ?? hostname() })
    return { ok: true, says: `the certificate of ${tlsCert}` }
  } catch (error) {
    return { ok: false, says: (error as Error).message }
  }
}

async function examineMx (domain: string, dns: ReverseDns): Promise<MailFinding> {
  try {
    const hosts = (await dns.mx(domain) ?? []).map(({ exchange }) => exchange).filter(exchange => exchange !== '')
    if (hosts.length === 0) {
      return { ok: false, says: `JETPOST_BOUNCE_DOMAIN ${domain} has no MX record that leads to a host` }
    }
    return { ok: true, says: `bounces come to ${domain}, whose MX is ${oneLine(hosts.join(', '))}` }
  } catch (error) {
    return unknown(`the MX of JETPOST_BOUNCE_DOMAIN ${domain}`, error)
  }
}

function unknown (what: string, error: unknown): MailFinding {
  if (error instanceof DnsUnavailable) return { ok: null, says: `${what} is unknown: ${error.message}` }
  throw error
}
