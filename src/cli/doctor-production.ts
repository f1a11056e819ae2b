import { get } from 'node:https'
import type { LookupFunction } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { alertDomain } from '#src/actions/alert.ts'
import { lastBackup } from '#src/actions/backup.ts'
import { followDirectory, type LiveDirectory } from '#src/actions/directory.ts'
import { hasDashboard, type Config } from '#src/base/config.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { createResolver, literalFault } from '#src/dns/guard.ts'
import { Refusal } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { domainsInUse, isVerifiedEnough } from '#streams/domain/decide.ts'
import { examineLinks, examineMail, type Check } from './doctor-mail.ts'
import { openBus } from './open-services.ts'
import type { CommandSettings } from './settings.ts'
import { oneLine } from './text.ts'

/** What a client sees at the public URL. */
interface PublicLook {
  /** Why it is not Jetpost that answers there; null = it is. */
  fault: string | null
  /** Unix ms until which its certificate is valid; null = there is none that a client accepts. */
  certificateEndMs: number | null
}

const ANSWER_MS = 5000
/** Every answer of the API has it. */
const OURS = 'x-ratelimit-limit'

/** Asks the public URL as a client does, within 5 s: through DNS and the proxy. By http nobody is asked. */
async function lookAtPublicUrl ({ publicUrl, dns }: Config, ca?: string): Promise<PublicLook> {
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

/** One step to production: done, or what must be done. */
export interface ProductionStep {
  name: string
  ok: boolean
  says: string
}

type Finding = Omit<ProductionStep, 'name'>

/** What the log says: null = NATS does not answer, and why. */
interface LogLook {
  directory: Pick<LiveDirectory, 'now'> | null
  backupAt: string | null
  fault: string
}

const DIRECTORY_MS = 10_000
const BACKUP_MS_MAX = 2 * 86_400_000
const CERTIFICATE_MS_MIN = 14 * 86_400_000
const NAMED_MAX = 5

/** Every step in the order of docs/production.md. Within 30 s. `ca` = PEM of an authority to trust in place of the
 *  well-known ones. */
export async function examineProduction (
  settings: CommandSettings,
  { ca, nowMs = Date.now() }: { ca?: string, nowMs?: number } = {}
): Promise<ProductionStep[]> {
  const { config, missing } = settings
  const [mail, look, publicLook] = await Promise.all([
    examineMail(config, missing),
    lookAtLog(config),
    lookAtPublicUrl(config, ca)
  ])
  const checkOf = (name: string) => mail.find(check => check.name === name)!
  const links = examineLinks(config, missing, look.directory === null ? null : usedOf(look.directory))
  return [
    { name: 'public URL', ...examineUrl(config, publicLook) },
    { name: 'proxy and TLS', ...examineProxy(config, publicLook, nowMs) },
    { name: 'mail out', ...examineOut(settings, checkOf('smtp'), links) },
    { name: 'domain', ...examineDomain(look) },
    { name: 'DNS', ...examineDns(look) },
    { name: 'bounce domain', ...examineBounces(config, [checkOf('inbound'), checkOf('spf')]) },
    { name: 'backups', ...examineBackups(look, nowMs) },
    { name: 'alerts', ...examineAlerts(settings, look) }
  ]
}

const done = (says: string): Finding => ({ ok: true, says })
const todo = (says: string): Finding => ({ ok: false, says })

async function lookAtLog (config: Config): Promise<LogLook> {
  const log = createLog('silent')
  try {
    const bus = await openBus(config, log)
    const directory = followDirectory(bus, log)
    try {
      if (!await directory.catchUp(DIRECTORY_MS)) throw new Complaint('NATS did not send the directory within 10 s.')
      return { directory: { now: directory.now }, backupAt: await lastBackup(bus), fault: '' }
    } finally {
      await directory.stop()
      await bus.close()
    }
  } catch (error) {
    return { directory: null, backupAt: null, fault: asError(error).message }
  }
}

function examineUrl (config: Config, { fault }: PublicLook): Finding {
  const { protocol, hostname } = new URL(config.publicUrl)
  if (protocol !== 'https:' || literalFault(hostname) !== null) {
    return todo(
      `Set JETPOST_PUBLIC_URL to the https URL at which the internet reaches Jetpost: it is ${config.publicUrl}.`
    )
  }
  if (fault !== null) return todo(`${config.publicUrl} must lead to this Jetpost: ${fault}.`)
  return done(hasDashboard(config) ? config.publicUrl : `${config.publicUrl}, below a path: there is no dashboard`)
}

function examineProxy (
  { publicUrl, trustProxy }: Config,
  { certificateEndMs }: PublicLook,
  nowMs: number
): Finding {
  if (trustProxy.length === 0) {
    return todo("Put a proxy with TLS in front of Jetpost, and set JETPOST_TRUST_PROXY to the proxy's address.")
  }
  if (certificateEndMs === null) return todo(`${publicUrl} must answer with a valid certificate.`)
  const end = new Date(certificateEndMs).toISOString().slice(0, 10)
  if (certificateEndMs - nowMs < CERTIFICATE_MS_MIN) {
    return todo(`The certificate ends ${end}: it must be renewed.`)
  }
  return done(`${trustProxy.join(', ')} is trusted; the certificate ends ${end}`)
}

function examineOut ({ config, missing }: CommandSettings, smtp: Check, links: Check): Finding {
  if (config.smtpUrl === null && !missing.includes('SMTP_URL')) {
    return todo('Set SMTP_URL to your relay, or to direct: with JETPOST_HOSTNAME. Now mail goes to the mail catcher.')
  }
  return allDone([smtp, links])
}

/** Done when all are; the first says how. */
function allDone (checks: Check[]): Finding {
  const wrong = checks.filter(({ ok }) => ok !== true)
  return wrong.length === 0 ? done(checks[0]!.says) : todo(wrong.map(({ says }) => ended(says)).join(' '))
}

function usedOf ({ now }: Pick<LiveDirectory, 'now'>): DomainEntry[] {
  return domainsInUse(now.domains.values())
}

function examineDomain ({ directory, fault }: LogLook): Finding {
  if (directory === null) return todo(fault)
  const names = [...new Set(usedOf(directory).map(({ name }) => name))]
  if (names.length === 0) return todo('Add the domain that you send from: npx jetpost domains add example.com.')
  return done(named(names))
}

function examineDns ({ directory, fault }: LogLook): Finding {
  if (directory === null) return todo(fault)
  const all = usedOf(directory)
  const wrong = all.filter(({ status, failingSince }) => status !== 'verified' || failingSince !== null)
  if (all.length === 0) return todo('Publish the DNS records of your domain, once it is added.')
  if (wrong.length === 0) return done(`the records of ${named(all.map(({ name }) => name))} are right`)
  const [{ name }] = wrong as [DomainEntry]
  return todo(`Publish the DNS records of ${named(wrong.map(each => each.name))}: npx jetpost domains show ${name}.`)
}

function examineBounces ({ bounceDomain, inboundPort }: Config, checks: Check[]): Finding {
  if (bounceDomain === null || inboundPort === null) {
    const unset = [
      ...(bounceDomain === null ? ['JETPOST_BOUNCE_DOMAIN'] : []),
      ...(inboundPort === null ? ['JETPOST_INBOUND_PORT'] : [])
    ]
    return todo(`Set ${unset.join(' and ')}: without, bounces and complaints do not come back.`)
  }
  return allDone(checks)
}

function examineBackups ({ directory, backupAt, fault }: LogLook, nowMs: number): Finding {
  if (directory === null) return todo(fault)
  const often = 'Run npx jetpost backup <folder> every night.'
  if (backupAt === null) return todo(`${often} There is no backup yet.`)
  if (nowMs - Date.parse(backupAt) > BACKUP_MS_MAX) return todo(`${often} The last backup is of ${backupAt}.`)
  return done(`the last one is of ${backupAt}`)
}

function examineAlerts ({ config, missing }: CommandSettings, { directory, fault }: LogLook): Finding {
  const { alertTo, alertFrom, alertUrl, requireVerifiedDomains } = config
  const isPosted = alertUrl !== null || missing.includes('JETPOST_ALERT_URL')
  if (alertTo.length === 0) {
    return isPosted
      ? done('posted to JETPOST_ALERT_URL')
      : todo('Set JETPOST_ALERT_TO and JETPOST_ALERT_FROM, or JETPOST_ALERT_URL and JETPOST_ALERT_SECRET.')
  }
  if (directory === null) return todo(fault)
  const domain = alertDomain({ directory }, alertFrom!)
  if (domain instanceof Refusal) return todo(domain.message)
  if (domain === 'sandbox' || !isVerifiedEnough(domain, requireVerifiedDomains)) {
    return todo(`JETPOST_ALERT_FROM must be on a verified domain: ${alertFrom} is not.`)
  }
  return done(`by mail to ${alertTo.join(', ')}${isPosted ? ', and posted to JETPOST_ALERT_URL' : ''}`)
}

function named (names: string[]): string {
  const rest = names.length - NAMED_MAX
  return oneLine(`${names.slice(0, NAMED_MAX).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`)
}

/** As a sentence. */
function ended (text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}
