import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence } from '#src/nats/get.ts'
import { followMail, MAIL_STREAM } from '../follow-mail.ts'
import { mailLine, outcomeOf } from '../mail-line.ts'
import { paint, columnsOf } from '../style.ts'
import { clockText } from '../text.ts'

/** More would scroll by unread, and a terminal that is slow holds the process up. */
const LINES_MAX_PER_S = 20

/** Shows what happens to mail from now on, a line each, until `signal` is aborted. Read from the log of facts: the
 *  process's own log names no recipient and no subject. */
export async function watchMail (
  bus: Bus,
  signal: AbortSignal,
  write: (line: string) => void,
  log: Log
): Promise<void> {
  const onError = (err: Error) => log.warn({ err }, 'mail cannot be shown')
  const show = limited(write, signal)
  const watch = async (afterSeq: number) => {
    for await (const batch of followMail(bus, { afterSeq, signal, onError })) for (const { fact } of batch) show(fact)
  }
  const afterSeq = await lastSequence(bus, MAIL_STREAM)
  watch(afterSeq).catch(error => onError(asError(error)))
}

/** Of what is too much for one second only the sum. */
function limited (write: (line: string) => void, signal: AbortSignal) {
  let shown = 0
  const left = new Map<string, number>()
  const timer = setInterval(() => {
    shown = 0
    if (left.size === 0) return
    const sums = [...left].map(([name, count]) => `${count} ${name}`).join(', ')
    left.clear()
    write(`${paint('dim', clockText(Date.now()))} … and ${sums}`)
  }, 1000)
  signal.addEventListener('abort', () => clearInterval(timer))
  return (fact: Parameters<typeof mailLine>[0]) => {
    const outcome = outcomeOf(fact)
    if (outcome === null) return
    if (shown++ < LINES_MAX_PER_S) return write(mailLine(fact, outcome, columnsOf(process.stdout)))
    left.set(outcome.name, (left.get(outcome.name) ?? 0) + 1)
  }
}
