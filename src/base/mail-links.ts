import type { Config } from './config.ts'

type MailSettings = Pick<Config, 'smtpUrl' | 'trackingUrl'>

/** The loopback, and what a server listens on and nobody calls. */
const LOCAL = /^(localhost|.+\.localhost|127(\.\d+){3}|0\.0\.0\.0|\[::1?\])$/

/** Whether nobody but this machine can follow a URL. */
export function isLocalUrl (url: string): boolean {
  return LOCAL.test(new URL(url).hostname)
}

/** Where the links of mail that leaves lead; null = mail leaves, and only this machine could follow them. */
export function linkUrlOf ({ smtpUrl, trackingUrl }: MailSettings): string | null {
  return smtpUrl !== null && isLocalUrl(trackingUrl) ? null : trackingUrl
}

/** What is known of a domain that mail is sent from; `spf` null = its SPF record was not looked up. */
export interface SendingDomain {
  status: string
  spf: { name: string, state: string } | null
}

interface MailWarning {
  what: string
  why: string
}

/** What harms mail that leaves, and what an operator can do about it. `domains` null = unknown. */
export function mailWarnings (
  config: MailSettings & Pick<Config, 'requireVerifiedDomains'>,
  domains: Iterable<SendingDomain> | null
): MailWarning[] {
  if (config.smtpUrl === null) return []
  const direct = config.smtpUrl === 'direct:' ? directWarnings(config, domains === null ? null : [...domains]) : []
  return [...linkWarnings(config), ...direct]
}

function linkWarnings (config: MailSettings): MailWarning[] {
  const url = linkUrlOf(config)
  return [
    ...url === null
      ? [{
        what: 'Mail goes out without tracking and without unsubscribe links',
        why: `Links to ${new URL(config.trackingUrl).host} would be dead for its readers. ` +
          'Set JETPOST_PUBLIC_URL or JETPOST_TRACKING_URL to a URL that they can reach.'
      }]
      : [],
    ...url?.startsWith('http:') === true
      ? [{
        what: 'Unsubscribe links are http',
        why: 'Gmail and others ignore one-click unsubscribing by http (RFC 8058). ' +
          'Set JETPOST_TRACKING_URL, or JETPOST_PUBLIC_URL, to an https URL.'
      }]
      : []
  ]
}

/** Without a relay, which signs for itself and has an SPF record of its own. */
function directWarnings (
  { requireVerifiedDomains }: Pick<Config, 'requireVerifiedDomains'>,
  domains: SendingDomain[] | null
): MailWarning[] {
  const unverified = domains === null ? null : domains.filter(({ status }) => status !== 'verified').length
  const isWrong = ({ spf }: SendingDomain) => spf !== null && spf.state !== 'ok'
  // Domains with one return path share its record.
  const names = [...new Set(domains?.filter(isWrong).map(({ spf }) => spf!.name))]
  return [
    ...!requireVerifiedDomains && unverified !== 0
      ? [{
        what: unverified === null
          ? 'Domains send without being verified'
          : `${unverified} ${unverified === 1 ? 'domain sends' : 'domains send'} without being verified`,
        why: "Straight to the recipients' servers, mail signed by keys that DNS does not show is taken for forged. " +
          'Publish the DNS records, or set JETPOST_REQUIRE_VERIFIED_DOMAINS=true.'
      }]
      : [],
    ...names.length > 0
      ? [{
        what: `SPF is missing or wrong at ${names.length === 1 ? names[0]! : `${names.length} names`}`,
        why: 'Many servers refuse mail whose return path has no SPF record, or has two. ' +
          'Publish the one that the page of the domain shows.'
      }]
      : []
  ]
}
