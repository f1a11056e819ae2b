// The load generator: answers {url, key, inFlight, durationMs} with how fast POST /api/emails was.
import { closedLoop, quantile, type Shot } from '#src/cli/bench/load.ts'
import { answerWith } from './child.ts'
import { mailBody } from './mail.ts'

export interface LoadQuestion {
  url: string
  key: string
  inFlight: number
  durationMs: number
}

export interface Speed {
  perS: number
  p50Ms: number
  p99Ms: number
  /** Answers that were not what was hoped for. */
  failed: number
}

/** The start of a run is not counted: connections are opened and code is compiled there. */
const WARM_SHARE = 0.2

answerWith<LoadQuestion>(async ({ url, key, inFlight, durationMs }) => {
  const beginMs = performance.now()
  const warmUntilMs = beginMs + durationMs * WARM_SHARE
  const counted: Shot[] = []
  let failed = 0
  const onShot = (shot: Shot) => {
    if (shot.status !== 202) failed++
    else if (performance.now() > warmUntilMs) counted.push(shot)
  }
  await closedLoop({ url, key, inFlight, durationMs, body: mailBody, onShot })
  const times = counted.map(shot => shot.ms).sort((a, b) => a - b)
  const spanS = (performance.now() - warmUntilMs) / 1000
  return {
    perS: times.length / spanS,
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    failed
  } satisfies Speed
})
