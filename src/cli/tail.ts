import { once } from 'node:events'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { emailFacts, type RecipientFact } from '#streams/email/facts.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { lastSequence, sequenceBefore } from '#src/nats/get.ts'
import { misused, readArgs, usageError, type CliCommand } from './command.ts'
import { followMail, MAIL_STREAM } from './follow-mail.ts'
import { openBus, checkAccount } from './open-services.ts'
import { readSettings } from './settings.ts'
import { sinceMs, stopped } from './since.ts'
import { columnsOf, paint, paintType } from './style.ts'
import { clockText, cut, oneLine } from './text.ts'

/** `email.requested` lies in REQUESTS. */
const TYPES: string[] = emailFacts.map(({ name }) => name).filter(name =>
  name.startsWith('email.') && name !== 'email.requested'
)
const TYPE_WIDTH = Math.max(...TYPES.map(type => type.length))

const options = {
  account: { type: 'string' },
  type: { type: 'string', multiple: true, default: [] as string[] },
  since: { type: 'string' }
} as const

export const tail: CliCommand = {
  usage: 'jetpost tail [--account <id>] [--type <type>…] [--since 1h] [--json]',
  details: `  Follows the log until Ctrl-C.
  --account  only of this account
  --type     repeatable: ${TYPES.join(', ')}
  --since    begins that long ago (s, m, h, d)
  --json     each fact whole, one a line, with \`seq\`, its sequence in the stream`,
  async run (args) {
    const { values, positionals } = readArgs(args, options)
    const { account, type: types, since, json } = values
    const unknown = types.find(type => !TYPES.includes(type))
    if (positionals.length > 0) throw misused(tail)
    if (unknown !== undefined) throw usageError(`There is no type ${unknown}: the types are ${TYPES.join(', ')}.`)
    if (account !== undefined && !/^acc_[0-9a-z]{1,64}$/.test(account)) {
      throw usageError('--account takes an id like acc_first.')
    }
    const fromMs = since === undefined ? null : sinceMs(since)
    const show = json ? ({ fact, seq }: Recorded<AnyFact>) => JSON.stringify({ seq, ...fact }) : lineOf
    await tailBus({ account, wanted: new Set(types), fromMs, show })
  }
}

interface Tail {
  /** undefined = of all. */
  account: string | undefined
  /** Empty = all. */
  wanted: Set<string>
  /** Unix ms; null = from now on. */
  fromMs: number | null
  show(recorded: Recorded<AnyFact>): string
}

async function tailBus ({ account, wanted, fromMs, show }: Tail): Promise<void> {
  const stop = stopped()
  const { config } = await readSettings('NATS_URL')
  const bus = await openBus(config, createLog('error'))
  try {
    if (account !== undefined) await checkAccount(bus, account)
    const afterSeq = fromMs === null
      ? await lastSequence(bus, MAIL_STREAM)
      : await sequenceBefore(bus, MAIL_STREAM, fromMs)
    for await (const batch of followMail(bus, { account, afterSeq, signal: stop })) {
      const lines = batch.filter(({ fact }) => wanted.size === 0 || wanted.has(fact.type)).map(show)
      if (lines.length > 0) await write(`${lines.join('\n')}\n`, stop)
    }
  } catch (error) {
    // Interruptions do not end it; a fact that this version cannot read does.
    throw error instanceof Complaint
      ? error
      : new Complaint(`The log cannot be followed further: ${asError(error).message}`)
  } finally {
    await bus.close()
  }
}

/** Waits while the reader is slower than the mail. */
async function write (text: string, signal: AbortSignal): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain', { signal }).catch(() => {})
}

function lineOf ({ fact }: Recorded<AnyFact>): string {
  const { time, type, data } = fact as RecipientFact
  const columns = columnsOf(process.stdout)
  const [when, state] = columns === Infinity
    ? [time, type.padEnd(TYPE_WIDTH)]
    : [clockText(Date.parse(time)), type.padEnd(TYPE_WIDTH)]
  const rest = [data.email, oneLine(data.to), detailsOf(data)].join('  ').trimEnd()
  return [paint('dim', when), paintType(type, state), cut(rest, columns - when.length - TYPE_WIDTH - 4)].join('  ')
}

/** The reply; else why, or when. */
function detailsOf (data: RecipientFact['data']): string {
  const { reply, error, detail, reason, cause, class: kind, nextAttemptAt, scheduledAt } = data as
    & Record<string, unknown>
    & { reply?: { text: string } | null }
  const words = [reply?.text ?? error, detail, kind ?? reason ?? cause]
  const times = [
    nextAttemptAt == null ? null : `next attempt ${nextAttemptAt}`,
    scheduledAt == null ? null : `for ${scheduledAt}`
  ]
  return [...words, ...times].filter(word => word != null).map(word => oneLine(String(word))).join('  ')
}
