import type { Recorded } from '#streams/define.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { recordCursors, recordRequests } from '#src/actions/record.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { follow } from '#src/nats/follow.ts'
import { tryDecode, type DecodedMessage } from '#src/nats/message.ts'

const BATCH_MAX = 250
/** Nobody waits for a record: many share a commit. */
const GATHER_MS = 250
/** Whoever wrote the last record had recorded all that came before its batch: so many messages back, a claim beside
 *  each request, nothing is missing. */
const LOOK_BACK = 4 * BATCH_MAX
const PAUSE_MS = 1000
/** Following goes on by itself and tells of each failure anew within this time: after it, silence means it works. */
const TROUBLE_STAYS_MS = 10_000

/** Writes down what is asked for without its content, so that it is known for as long as the facts about it. Any number
 *  of processes may: each request is recorded once. */
export function startRecorder ({ appenders, log }: { appenders: Appenders, log: Log }): Role {
  const stopping = new AbortController()
  let unhealthyReason: string | null = null
  let busTrouble = { text: '', toldMs: -Infinity }

  async function run (): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await followOn()
      } catch (error) {
        if (stopping.signal.aborted) return
        unhealthyReason = `requests wait to be recorded: ${asError(error).message}`
        log.warn({ reason: unhealthyReason }, 'records interrupted')
        await sleep(PAUSE_MS, stopping.signal)
      }
    }
  }

  async function followOn (): Promise<void> {
    const cursors = await recordCursors(appenders.bus)
    const afterSeq = Math.max(0, Math.max(...cursors.map(({ request }) => request)) - LOOK_BACK)
    const onFollowing = () => {
      unhealthyReason = null
    }
    const options = {
      stream: 'REQUESTS',
      filter: 'request.>',
      afterSeq,
      batchMax: BATCH_MAX,
      gatherMs: GATHER_MS,
      signal: stopping.signal,
      onError,
      onFollowing
    }
    for await (const found of follow(appenders.bus, options, tryDecode)) {
      await recordRequests(appenders, found.filter(isRequest), cursors)
      unhealthyReason = null
    }
  }

  /** What nobody can read has no record: the views deadLetter it, and say so. What a newer Jetpost can read is left to
   *  it. */
  function isRequest (found: DecodedMessage): found is DecodedMessage & Recorded<EmailRequested> {
    if (found.newer) throw new Error(found.reason)
    if (found.fact === null) {
      log.error(
        { seq: found.seq, subject: found.subject, reason: found.reason },
        'a request cannot be read, and is not recorded'
      )
    }
    return found.fact !== null
  }

  function onError (error: Error): void {
    busTrouble = { text: `NATS does not give requests: ${error.message}`, toldMs: Date.now() }
  }

  const running = run()
  return {
    name: 'records',
    unhealthyReason: () =>
      unhealthyReason ?? (Date.now() - busTrouble.toldMs < TROUBLE_STAYS_MS ? busTrouble.text : null),
    async stop () {
      stopping.abort()
      await running
    }
  }
}
