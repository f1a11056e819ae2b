import { sleep } from '#src/base/backoff.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { isUnanswered, JetStreamError } from './errors.ts'
import { getMessage } from './get.ts'

const AT_ONCE = 8
const ANSWER_MS = 5000
const TRIES = 5
const PAUSE_MS = 500
/** err_codes of a deletion of what is not there: `sequence not found`, and one that failed, whatever the reason. */
const NOT_DELETED = new Set([10043, 10057])

/** Deletes messages so that their bytes are overwritten where they lie, on every replica; gone ones are left in peace.
 *  Throws JetStreamError, or what `isUnanswered` knows after five silences. */
export async function deleteSecurely (bus: Bus, stream: string, seqs: readonly number[]): Promise<void> {
  const left = [...seqs]
  const work = async () => {
    for (let seq = left.pop(); seq !== undefined; seq = left.pop()) await deleteOne(bus, stream, seq)
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, left.length) }, work))
}

async function deleteOne (bus: Bus, stream: string, seq: number): Promise<void> {
  for (let tries = 1;; tries++) {
    try {
      // Without `no_erase`: a purge, or a deletion with it, leaves the bytes on the disk.
      return void await api(bus, `STREAM.MSG.DELETE.${stream}`, { seq }, ANSWER_MS)
    } catch (error) {
      if (error instanceof JetStreamError && NOT_DELETED.has(error.code)) {
        if (await getMessage(bus, stream, { seq }, 'leader', ANSWER_MS) === null) return
      }
      if (!isUnanswered(error) || tries >= TRIES) throw error
    }
    await sleep(PAUSE_MS)
  }
}
