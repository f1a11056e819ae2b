import type { Config } from './config.ts'

type MailSettings = Pick<Config, 'smtpUrl' | 'trackingUrl'>

const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/

/** Where the links of mail that leaves lead; null = mail leaves, and only this machine could follow them. */
export function linkUrlOf ({ smtpUrl, trackingUrl }: MailSettings): string | null {
  return smtpUrl !== null && LOOPBACK.test(new URL(trackingUrl).hostname) ? null : trackingUrl
}

/** What harms mail that leaves, and what an operator can do about it. `domains` null = unknown. */
export function mailWarnings (
  config: MailSettings & Pick<Config, 'requireVerifiedDomains'>,
  domains: Iterable<{ status: string }> | null
): Array<{ what: string, why: string }> {
  if (config.smtpUrl === null) return []
  const unverified = domains === null ? null : [...domains].filter(({ status }) => status !== 'verified').length
  const url = linkUrlOf(config)
  const isUnsafe = config.smtpUrl === 'direct:' && !config.requireVerifiedDomains && unverified !== 0
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
      : [],
    ...isUnsafe
      ? [{
        what: unverified === null
          ? 'Domains send without being verified'
          : `${unverified} ${unverified === 1 ? 'domain sends' : 'domains send'} without being verified`,
        why: "Straight to the recipients' servers, mail signed by keys that DNS does not show is taken for forged. " +
          'Publish the DNS records, or set JETPOST_REQUIRE_VERIFIED_DOMAINS=true.'
      }]
      : []
  ]
}
