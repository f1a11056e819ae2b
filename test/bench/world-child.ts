// The world around Jetpost: a load generator, an SMTP sink and a webhook sink with one clock.
import { startHookSink } from '../support/hook-sink.ts'
import { closedLoop, quantile } from '#src/cli/bench/load.ts'
import { startSink } from '../support/smtp-sink.ts'
import { answerWith } from './child.ts'
import { mailBody } from './mail.ts'

export type WorldQuestion =
  | { ask: 'where' }
  /** Load until `halt`, with at most `outstandingMax` emails between accept and webhook. */
  | { ask: 'begin', url: string, key: string, inFlight: number, outstandingMax: number, durationMsMax: number }
  | { ask: 'counts' }
  | { ask: 'halt' }

export interface Where {
  smtpUrl: string
  hookUrl: string
}
export interface Counts {
  accepted: number
  mails: number
  hooks: number
  failed: number
  nowMs: number
}
/** Of the emails accepted; latencies in ms from the moment the request left. */
export interface Outcome {
  lost: number
  doubled: number
  unhooked: number
  acceptMs: Spread
  smtpMs: Spread
  hookMs: Spread
}
export interface Spread {
  p50: number
  p99: number
}

const mail = await startSink()
const hooks = await startHookSink()
const sentAtMs = new Map<string, number>()
const acceptMs: number[] = []
const halted = new AbortController()
let failed = 0
let running: Promise<unknown> = Promise.resolve()

answerWith<WorldQuestion>(async question => {
  switch (question.ask) {
    case 'where':
      return { smtpUrl: mail.url, hookUrl: hooks.url } satisfies Where
    case 'begin':
      return begin(question)
    case 'counts':
      return counts()
    case 'halt':
      return await halt()
  }
})

function begin (
  { url, key, inFlight, outstandingMax, durationMsMax }: Extract<WorldQuestion, { ask: 'begin' }>
): Counts {
  running = closedLoop({
    url,
    key,
    inFlight,
    durationMs: durationMsMax,
    body: mailBody,
    signal: halted.signal,
    full: () => sentAtMs.size - hooks.requests.length >= outstandingMax - inFlight,
    onShot: shot => {
      if (shot.id === null) return void failed++
      sentAtMs.set(shot.id, Date.now() - shot.ms)
      acceptMs.push(shot.ms)
    }
  })
  return counts()
}

function counts (): Counts {
  return {
    accepted: sentAtMs.size,
    mails: mail.received.length,
    hooks: hooks.requests.length,
    failed,
    nowMs: performance.now()
  }
}

async function halt (): Promise<Outcome> {
  halted.abort()
  await running
  await hooks.waitFor(requests => requests.length >= sentAtMs.size, 20_000).catch(() => {})
  const mails = firsts(
    mail.received.map(message => [/<(em_\w+)\./.exec(message.messageId ?? '')?.[1] ?? '', message.atMs])
  )
  const events = firsts(hooks.requests.map(request => [JSON.parse(request.body.toString()).data.email_id, request.at]))
  const missing = (seen: Map<string, number>) => [...sentAtMs.keys()].filter(id => !seen.has(id)).length
  return {
    lost: missing(mails),
    doubled: mail.received.length - mails.size,
    unhooked: missing(events),
    acceptMs: spread(acceptMs),
    smtpMs: spread(since(mails)),
    hookMs: spread(since(events))
  }
}

/** The first time of each id. */
function firsts (seen: Array<[string, number]>): Map<string, number> {
  const found = new Map<string, number>()
  for (const [id, atMs] of seen) if (!found.has(id)) found.set(id, atMs)
  return found
}

function since (seen: Map<string, number>): number[] {
  return [...seen].flatMap(([id, atMs]) => sentAtMs.has(id) ? [atMs - sentAtMs.get(id)!] : [])
}

function spread (values: number[]): Spread {
  values.sort((a, b) => a - b)
  return { p50: quantile(values, 0.5), p99: quantile(values, 0.99) }
}
