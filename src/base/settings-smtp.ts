import type { Config, Settings } from './config-types.ts'
import { address, boolean, integer, proxies, text } from './config-values.ts'

/** On embedded NATS, where somebody tries it out. */
export const SUBMISSION_PORT = 2525

type Names = Extract<keyof Config, `inbound${string}` | `submission${string}` | `tls${string}`>

/** Of the servers that speak SMTP: inbound and submission. */
export const smtpServerSettings: Pick<Settings, Names> = {
  inboundHost: {
    env: 'JETPOST_INBOUND_HOST',
    means: 'address the inbound SMTP server listens on',
    unset: '`HOST`',
    fallback: env => env.HOST ?? '127.0.0.1',
    parse: address
  },
  inboundPort: {
    env: 'JETPOST_INBOUND_PORT',
    means: 'port of the inbound SMTP server (bounces, complaints, unsubscribes); unset = no server',
    details: '0 = a free port.',
    unset: 'no inbound SMTP server',
    fallback: null,
    parse: integer(0, 65_535)
  },
  submissionHost: {
    env: 'JETPOST_SUBMISSION_HOST',
    means: 'address that SMTP submission listens on',
    unset: '`HOST`',
    fallback: env => env.HOST ?? '127.0.0.1',
    parse: address
  },
  submissionPort: {
    env: 'JETPOST_SUBMISSION_PORT',
    means: 'port of SMTP submission, with STARTTLS',
    details: '0 = a free port. The password is an API key: see [sending by SMTP](smtp.md). Where 2525 is taken, ' +
      'embedded NATS starts without it.',
    unset: '2525 on embedded NATS, otherwise no such server',
    fallback: env => (env.NATS_URL === undefined ? SUBMISSION_PORT : null),
    parse: integer(0, 65_535)
  },
  submissionTlsPort: {
    env: 'JETPOST_SUBMISSION_TLS_PORT',
    means: 'port of SMTP submission, with TLS from the start',
    details: '0 = a free port.',
    unset: 'no such server',
    fallback: null,
    parse: integer(0, 65_535)
  },
  submissionPlainNetworks: {
    env: 'JETPOST_SUBMISSION_PLAIN_NETWORKS',
    means: 'addresses and ranges that may log in to SMTP submission without TLS',
    details:
      'A comma-separated list, as in `JETPOST_TRUST_PROXY`. Their traffic shows the API key to anybody who reads it.',
    unset: 'none',
    fallback: [],
    parse: proxies
  },
  submissionOnce: {
    env: 'JETPOST_SUBMISSION_ONCE',
    means: 'accept a message by SMTP once in seven days, known by its Message-ID, body and recipients',
    details: 'A client that has lost our answer and sends the same message again sends no second mail.',
    fallback: false,
    parse: boolean
  },
  tlsCert: {
    env: 'JETPOST_TLS_CERT',
    means: 'PEM file of the certificate chain of inbound SMTP and SMTP submission',
    details: 'SMTP submission reads both files again once a minute: a renewed certificate needs no restart.',
    unset: 'self-signed',
    fallback: null,
    parse: text
  },
  tlsKey: { env: 'JETPOST_TLS_KEY', means: "PEM file of that certificate's key", fallback: null, parse: text }
}
