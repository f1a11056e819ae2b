/** The limits of one network, of all networks, and of one session. */
export interface SubmissionLimits {
  clientsMax: number
  clientsOfNetworkMax: number
  /** Before a client has logged in; then the session ends. */
  commandsBeforeAuthMax: number
  authMs: number
  failedLoginsOfSessionMax: number
  /** Of a network, a minute. */
  failedLoginsMax: number
  recipientsMax: number
  /** Announced (RFC 1870). */
  sizeBytesMax: number
  commandOctetsMax: number
  /** Mails on their way in at once. */
  mailsAtOnceMax: number
  mailsAtOnceOfNetworkMax: number
  /** When over half of them are taken. */
  mailsAtOnceOfNetworkBusyMax: number
  /** Of all of them together. */
  bytesAtOnceMax: number
  bytesAtOnceOfAccountMax: number
  idleMs: number
  /** However busy: between two mails. */
  sessionMs: number
  /** For one mail. */
  dataMs: number
  /** Between two looks at the certificate's files. */
  reloadMs: number
  stopMs: number
}

export const LIMITS: SubmissionLimits = {
  clientsMax: 500,
  clientsOfNetworkMax: 150,
  commandsBeforeAuthMax: 10,
  authMs: 60_000,
  failedLoginsOfSessionMax: 3,
  failedLoginsMax: 30,
  recipientsMax: 100,
  sizeBytesMax: 25 * 1024 * 1024,
  // AUTH may come with its answer: RFC 4954 4.
  commandOctetsMax: 12_288,
  mailsAtOnceMax: 128,
  mailsAtOnceOfNetworkMax: 96,
  mailsAtOnceOfNetworkBusyMax: 64,
  bytesAtOnceMax: 128 * 1024 * 1024,
  bytesAtOnceOfAccountMax: 64 * 1024 * 1024,
  idleMs: 300_000,
  sessionMs: 3_600_000,
  dataMs: 600_000,
  reloadMs: 60_000,
  // Longer than accepting waits for the log.
  stopMs: 14_000
}
