import type { BounceClass } from '#streams/email/classes.ts'

/** Enhanced status codes without their first digit (subject.detail, or the subject alone) when no text decides. Source:
 *  RFC 3463, 5248, 7293, 7372, 7504, 7505 and the IANA registry; from 7.30 on Google's, from 7.51 on Microsoft's own.
 */
const STATUSES: Record<string, BounceClass> = {
  1.1: 'userunknown',
  1.2: 'hostunknown',
  1.3: 'userunknown',
  1.6: 'hasmoved',
  1.7: 'rejected',
  1.8: 'rejected',
  '1.10': 'notaccept',
  2.1: 'suspend',
  2.2: 'mailboxfull',
  2.3: 'exceedlimit',
  2.4: 'filtered',
  3: 'systemerror',
  3.1: 'systemfull',
  3.2: 'notaccept',
  3.4: 'mesgtoobig',
  4: 'networkerror',
  4.4: 'hostunknown',
  4.5: 'systemerror',
  4.7: 'expired',
  5: 'syntaxerror',
  5.3: 'toomanyconn',
  5.6: 'contenterror',
  6: 'contenterror',
  '6.0': 'contenterror',
  7: 'policyviolation',
  '7.0': 'policyviolation',
  7.2: 'filtered',
  7.4: 'securityerror',
  7.5: 'securityerror',
  7.6: 'securityerror',
  7.7: 'securityerror',
  7.8: 'securityerror',
  7.9: 'securityerror',
  '7.10': 'securityerror',
  7.11: 'securityerror',
  7.12: 'securityerror',
  7.13: 'suspend',
  7.14: 'securityerror',
  7.16: 'mesgtoobig',
  7.17: 'hasmoved',
  7.18: 'hasmoved',
  '7.20': 'authfailure',
  7.21: 'authfailure',
  7.22: 'authfailure',
  7.23: 'authfailure',
  7.24: 'authfailure',
  7.25: 'requireptr',
  7.26: 'authfailure',
  7.27: 'rejected',
  7.28: 'speeding',
  7.29: 'authfailure',
  '7.30': 'authfailure',
  7.31: 'authfailure',
  7.32: 'authfailure',
  '7.40': 'authfailure',
  7.57: 'securityerror',
  7.64: 'norelaying',
  7.124: 'filtered',
  7.129: 'filtered',
  7.133: 'filtered',
  7.134: 'filtered',
  7.135: 'filtered',
  7.136: 'filtered',
  7.501: 'spamdetected',
  7.502: 'spamdetected',
  7.503: 'spamdetected',
  7.504: 'rejected',
  7.505: 'rejected',
  7.506: 'blocked',
  7.508: 'speeding',
  7.509: 'authfailure',
  '7.510': 'norelaying',
  7.511: 'blocked',
  7.512: 'notcompliantrfc',
  7.513: 'blocked',
  7.515: 'authfailure',
  '7.700': 'speeding',
  7.703: 'spamdetected',
  7.705: 'speeding',
  7.708: 'badreputation',
  '7.750': 'rejected'
}

/** The class a status such as `5.1.1` stands for, or null when it leaves the matter open. `x.n.0` means "other":
 *  servers write it when they mean nothing. */
export function classOfStatus (status: string): BounceClass | null {
  const [, subject, detail] = status.split('.') as [string, string, string]
  // Microsoft numbers its lists of bad senders.
  if (subject === '7' && /^6\d\d$/.test(detail)) return 'blocked'
  // A number alone that means "for now" does not say that the address is gone.
  if (status === '4.3.2') return 'systemerror'
  if (/^4\.1\.[1236]$/.test(status)) return 'onhold'
  return STATUSES[`${subject}.${detail}`] ?? (detail === '0' ? null : STATUSES[subject]) ?? null
}
