// The load generator: answers {port, key, from, to, connections, durationMs} with how fast mail was taken by SMTP.
import { quantile } from '#src/cli/bench/load.ts'
import { dial } from '../support/inbound-peer.ts'
import { logIn, submit } from '../support/submission-peer.ts'
import { answerWith } from './child.ts'
import type { Speed } from './load-child.ts'

export interface SubmissionQuestion {
  port: number
  /** null = without TLS and without a login. */
  key: string | null
  from: string
  to: string
  connections: number
  durationMs: number
}

/** The start of a run is not counted. */
const WARM_SHARE = 0.2
const BODY = `<p>${'Thank you for your order. '.repeat(75)}</p>`

answerWith<SubmissionQuestion>(async ({ port, key, from, to, connections, durationMs }) => {
  const open = async () => {
    if (key !== null) return await logIn(port, key)
    const peer = await dial(port)
    await peer.say('EHLO client.example')
    return peer
  }
  const peers = await Promise.all(Array.from({ length: connections }, open))
  const message = `From: ${from}\r\nTo: ${to}\r\nSubject: Order\r\nContent-Type: text/html\r\n\r\n${BODY}\r\n`
  const beginMs = performance.now()
  const warmUntilMs = beginMs + durationMs * WARM_SHARE
  const times: number[] = []
  let failed = 0
  await Promise.all(peers.map(async peer => {
    while (performance.now() < beginMs + durationMs) {
      const sentMs = performance.now()
      const reply = await submit(peer, from, [to], message)
      if (!reply.startsWith('250')) failed++
      else if (performance.now() > warmUntilMs) times.push(performance.now() - sentMs)
    }
    peer.close()
  }))
  times.sort((a, b) => a - b)
  return {
    perS: times.length / ((performance.now() - warmUntilMs) / 1000),
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    failed
  } satisfies Speed
})
