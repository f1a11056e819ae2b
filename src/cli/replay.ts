import { randomBytes } from 'node:crypto'
import type { AnyFact } from '#streams/catalog.ts'
import { eventIn, isSuccess } from '#streams/delivery/decide.ts'
import { urlFault } from '#streams/webhook/decide.ts'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { createLog } from '#src/base/log.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequenceUnder, sequenceBefore } from '#src/nats/get.ts'
import { createPoster, type PostResult } from '#src/workers/webhooks/post.ts'
import { signatureHeaders, signingKeys } from '#src/workers/webhooks/attempt.ts'
import { misused, readArgs, usageError, type CliCommand } from './command.ts'
import { followMail, mailFilter, MAIL_STREAM } from './follow-mail.ts'
import { openBus, checkAccount } from './open-services.ts'
import { readSettings } from './settings.ts'
import { sinceMs, stopped } from './since.ts'
import { durationText, oneLine } from './text.ts'

/** As for an endpoint. */
const TIMEOUT_MS = 15_000
/** By how much the clock that stamped a fact may be ahead of the one that stored it. */
const SKEW_MS = 10 * 60_000
const TYPE_WIDTH = Math.max(...EVENT_TYPES.map(type => type.length))

const options = {
  account: { type: 'string', default: FIRST_ACCOUNT },
  to: { type: 'string' },
  since: { type: 'string' },
  type: { type: 'string', multiple: true, default: [] as string[] },
  secret: { type: 'string' },
  follow: { type: 'boolean', default: false }
} as const

export const replay: CliCommand = {
  usage: `jetpost replay --to <url> [--since 1h] [--follow] [--type <type>…] [--secret whsec_…] [--account <id>]
               [--json]`,
  details: `  Posts webhook events of the past from this shell, one after the other. Exit code 1 when one was refused.
  --to      where to, also http and private addresses; it needs no endpoint, and nothing is recorded
  --since   begins that long ago (s, m, h, d); without it --follow is needed
  --follow  continues with new events, until Ctrl-C
  --type    any number of times: ${EVENT_TYPES.join(', ')}
  --secret  signs with it; else with one made for this run, which is printed first
  --json    one object a line`,
  async run (args) {
    const { values, positionals } = readArgs(args, options)
    const { account, to, since, type: types, secret = `whsec_${randomBytes(32).toString('base64')}`, json } = values
    if (positionals.length > 0 || to === undefined || (since === undefined && !values.follow)) {
      throw misused(replay)
    }
    const fault = urlFault(to, true)
    const unknown = types.find(type => !(EVENT_TYPES as readonly string[]).includes(type))
    if (fault !== null) throw usageError(fault.message)
    if (unknown !== undefined) throw usageError(`There is no type ${unknown}: the types are ${EVENT_TYPES.join(', ')}.`)
    if (!/^acc_[0-9a-z]{1,64}$/.test(account)) throw usageError('--account takes an id like acc_first.')
    if (!/^whsec_[A-Za-z0-9+/]{16,}={0,2}$/.test(secret)) {
      throw usageError('--secret takes a signing secret: whsec_ and base64.')
    }
    const fromMs = since === undefined ? Date.now() : sinceMs(since)
    await postAll({
      account,
      url: new URL(to),
      fromMs,
      types: new Set(types),
      secret,
      isNew: values.secret === undefined,
      follows: values.follow,
      json
    })
  }
}

interface ReplayRun {
  account: string
  url: URL
  fromMs: number
  /** Empty = all. */
  types: ReadonlySet<string>
  secret: string
  /** Made for this run. */
  isNew: boolean
  follows: boolean
  json: boolean
}

async function postAll (run: ReplayRun): Promise<void> {
  const stop = stopped()
  const { config } = await readSettings('NATS_URL')
  const bus = await openBus(config, createLog('error'))
  const poster = createPoster({ allowPrivate: true, timeoutMs: TIMEOUT_MS })
  const keys = signingKeys(run.secret)
  let [accepted, failed] = [0, 0]
  try {
    await checkAccount(bus, run.account)
    if (run.isNew) process.stderr.write(`Signed with ${run.secret}\n`)
    for await (const fact of events(bus, run, stop)) {
      const { body, type, email } = eventIn(fact)!
      const bytes = Buffer.from(body)
      const timestampS = Math.floor(Date.now() / 1000)
      const headers = {
        'Content-Type': 'application/json',
        'User-Agent': 'Jetpost',
        ...signatureHeaders({ keys, previous: null, id: fact.id, timestampS, body: bytes })
      }
      const answer = await poster.post(run.url, headers, bytes)
      if (isSuccess(answer.status)) accepted++
      else failed++
      console.log(run.json ? jsonOf(fact, type, email, answer) : lineOf(fact, type, email, answer))
    }
  } finally {
    await poster.close()
    await bus.close()
  }
  process.stderr.write(`${accepted} accepted, ${failed} not.\n`)
  if (failed > 0) process.exitCode = 1
}

/** The facts that are events, oldest first: up to the last one at the start, or without end. */
async function* events (
  bus: Bus,
  { account, fromMs, types, follows }: ReplayRun,
  signal: AbortSignal
): AsyncGenerator<AnyFact> {
  const last = follows ? Infinity : await lastSequenceUnder(bus, MAIL_STREAM, mailFilter(account))
  const afterSeq = await sequenceBefore(bus, MAIL_STREAM, fromMs - SKEW_MS)
  if (afterSeq >= last) return
  for await (const batch of followMail(bus, { account, afterSeq, signal })) {
    for (const { fact, seq } of batch) {
      const event = eventIn(fact)
      const wanted = event !== null && !event.isLaterDeferral && (types.size === 0 || types.has(event.type)) &&
        Date.parse(fact.time) >= fromMs
      if (signal.aborted) return
      if (wanted) yield fact
      if (seq >= last) return
    }
  }
}

function jsonOf (
  { id, time }: AnyFact,
  type: string,
  email: string,
  { status, error, durationMs }: PostResult
): string {
  return JSON.stringify({ event: id, type, email, created_at: time, status, error, duration_ms: durationMs })
}

function lineOf (
  { id, time }: AnyFact,
  type: string,
  email: string,
  { status, error, durationMs }: PostResult
): string {
  return [time, type.padEnd(TYPE_WIDTH), id, email, status ?? oneLine(error ?? ''), durationText(durationMs)].join('  ')
}
