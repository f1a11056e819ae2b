import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Bus } from '#src/nats/connect.ts'
import { follow } from '#src/nats/follow.ts'

/** Where facts about recipients are. */
export const MAIL_STREAM = 'EMAILS'

interface Following {
  /** undefined = of all accounts. */
  account?: string
  /** Facts after this sequence. */
  afterSeq: number
  signal: AbortSignal
  /** Called with each interruption; following goes on. By default it is printed. */
  onError?: (error: Error) => void
}

/** The facts about recipients in their order, in batches, until `signal` is aborted. Throws when a fact cannot be read
 *  by this version. */
export function followMail (
  bus: Bus,
  { account = '*', afterSeq, signal, onError = printInterruption }: Following
): AsyncGenerator<Recorded<AnyFact>[]> {
  return follow(bus, {
    stream: MAIL_STREAM,
    filter: mailFilter(account),
    afterSeq,
    batchMax: 256,
    gather: () => sleep(5),
    signal,
    onError: error => {
      if (!signal.aborted) onError(error)
    }
  })
}

/** Their subjects; `*` = of all accounts. */
export function mailFilter (account: string): string {
  return `email.*.${account}.>`
}

function printInterruption ({ message }: Error): void {
  process.stderr.write(`jetpost: interrupted: ${message}\n`)
}
