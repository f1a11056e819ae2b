import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { INBOUND_BYTES_MAX, InboundReceived } from '#streams/inbound/facts.ts'
import { newId } from '#src/base/id.ts'
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

/** Keeps a mail before anybody reads it; resolves to its id once that is durable. Throws LogUnavailable. */
export async function keepInbound ({ clock, append }: FactLog, { raw, ...mail }: InboundMail): Promise<string> {
  const nowMs = clock.nowMs()
  const id = newId('in', nowMs)
  const data = { inbound: id, ...mail, raw: raw.subarray(0, INBOUND_BYTES_MAX).toString('base64') }
  const fact = stamp(InboundReceived, { account: FIRST_ACCOUNT, correlation: id, causation: null }, data, nowMs)
  await append([{ fact }], KEEP_TIMEOUT_MS)
  return id
}
