import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { JetStreamError, NO_MESSAGE } from './errors.ts'

const TIMEOUT_MS = 2000

/** Sequence of the last message under a subject filter, as the stream's leader knows it; 0 when there is none.
 *  The server sends the message itself along: ask only when the stream's last sequence does not do. */
export async function lastSequenceUnder (bus: Bus, stream: string, filter: string): Promise<number> {
  try {
    const { message } = await api<{ message: { seq: number } }>(bus, `STREAM.MSG.GET.${stream}`, { last_by_subj: filter }, TIMEOUT_MS)
    return message.seq
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return 0
    throw error
  }
}
