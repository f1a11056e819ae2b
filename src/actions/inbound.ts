import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { FeedbackSourceEntry } from '#streams/feedback-source/state.ts'
import { groupsOf } from '#streams/groups.ts'
import { INBOUND_BYTES_MAX, InboundReceived, InboundReported } from '#streams/inbound/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { idOf, newId } from '#src/base/id.ts'
import type { RelayEvent } from '#src/feedback/relays/event.ts'
import { stamp, type FactLog } from './fact-log.ts'

/** A mail as it came: `raw` = its beginning at least, `sizeBytes` = all there was of it. */
export interface InboundMail {
  from: string
  to: string[]
  remote: string
  raw: Buffer
  sizeBytes: number
}

const KEEP_TIMEOUT_MS = 10_000
/** Reports of one append: as many are all in the log, or none is. */
const REPORTS_AT_ONCE = 100

/** Keeps a mail before anybody reads it; resolves to its id once that is durable. Throws LogUnavailable. */
export async function keepInbound ({ clock, append }: FactLog, { raw, ...mail }: InboundMail): Promise<string> {
  const nowMs = clock.nowMs()
  const id = newId('in', nowMs)
  const data = { inbound: id, ...mail, raw: raw.subarray(0, INBOUND_BYTES_MAX).toString('base64') }
  const fact = stamp(InboundReceived, { account: FIRST_ACCOUNT, correlation: id, causation: null }, data, nowMs)
  await append([{ fact }], KEEP_TIMEOUT_MS)
  return id
}

/** Keeps what a relay says before anybody acts on it; resolves once all of it is durable. Safe to repeat: what was said
 *  before has the same id, and is acted on once. Throws LogUnavailable. */
export async function keepReports (
  { clock, append }: FactLog,
  { id: source, provider, onlyAccount }: FeedbackSourceEntry,
  correlation: string,
  events: readonly RelayEvent[]
): Promise<void> {
  const nowMs = clock.nowMs()
  for (const group of groupsOf(events, REPORTS_AT_ONCE)) {
    await append(
      group.map(({ id, atMs, ...said }) => {
        const own = id === null ? JSON.stringify({ atMs, ...said }) : `${said.kind} ${said.address} ${id}`
        const inbound = idOf('in', `${source} ${own}`)
        const at = atMs === null ? null : timestamp(atMs)
        const data = { inbound, source, provider, onlyAccount, at, ...said }
        return { fact: stamp(InboundReported, { account: FIRST_ACCOUNT, correlation, causation: null }, data, nowMs) }
      }),
      KEEP_TIMEOUT_MS
    )
  }
}
