import { hostname } from 'node:os'
import { SUBMISSION_PORT } from '#src/base/settings-smtp.ts'
import { PortTaken, startSubmission, type SubmissionServer } from '#src/servers/submission/server.ts'
import type { AppContext } from './context.ts'

/** Starts SMTP submission, where the settings want it in this process. */
export async function openSubmission (context: AppContext): Promise<void> {
  const { config, services, counters, quotas, metrics, stack } = context
  const { submissionPort: port, submissionTlsPort: tlsPort } = config
  if (!config.roles.has('submission') || (port === null && tlsPort === null)) return
  const log = context.log.child({ role: 'submission' })
  const start = async (port: number | null) =>
    await startSubmission({
      services,
      counters,
      quotas,
      once: config.submissionOnce,
      port,
      tlsPort,
      host: config.submissionHost,
      hostname: config.hostname ?? hostname(),
      dataDir: config.dataDir,
      tlsCert: config.tlsCert,
      tlsKey: config.tlsKey,
      plainNetworks: config.submissionPlainNetworks,
      onMail: (code, seconds) => metrics.submission(code, seconds),
      log
    })
  const server = await start(port).catch((error: unknown): SubmissionServer | null => {
    // Somebody who tries Jetpost out may have another catcher of mail there, and not need this one.
    if (!(error instanceof PortTaken) || port !== SUBMISSION_PORT || config.natsUrl !== null) throw error
    log.warn(`${error.message} Jetpost runs without SMTP submission.`)
    return null
  })
  if (server === null) return
  stack.defer(() => server.stop())
  context.submission = server
  context.roles.push(server)
}
