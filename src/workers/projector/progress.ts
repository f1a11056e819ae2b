/** How far the making of a view has come. */
export interface Progress {
  stage: 'facts' | 'indexes' | 'catching up'
  /** Facts. */
  done: number
  total: number
  perS: number
  /** Seconds until the facts are read; null = nobody knows. */
  leftS: number | null
}

export type OnProgress = (progress: Progress) => void

/** `43 %, 2 min left`; for the rest, what is being done. */
export function progressText ({ stage, done, total, leftS }: Progress): string {
  if (stage === 'indexes') return 'its indexes are made'
  if (stage === 'catching up') return 'it catches up with what came meanwhile'
  const share = `${total === 0 ? 100 : Math.floor(done / total * 100)} %`
  return leftS === null ? share : `${share}, ${leftText(leftS)} left`
}

export function leftText (seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`
}

const EVERY_MS = 200
/** Before then a rate says nothing. */
const WARM_S = 1

/** Counts what is read, and tells it a few times a second. */
export function createProgress (tell: OnProgress) {
  const beginMs = performance.now()
  let stage: Progress['stage'] = 'facts'
  let [all, done, total, stageMs, toldMs] = [0, 0, 0, beginMs, -Infinity]

  function show (): void {
    toldMs = performance.now()
    const seconds = (toldMs - stageMs) / 1000
    const perS = seconds < WARM_S ? 0 : done / seconds
    tell({
      stage,
      done,
      total: Math.max(done, total),
      perS,
      leftS: perS === 0 || stage === 'indexes' ? null : Math.max(0, total - done) / perS
    })
  }

  return {
    begin (next: Progress['stage'], of: number): void {
      stage = next
      total = of
      done = next === 'indexes' ? of : 0
      stageMs = performance.now()
      show()
    },
    add (facts: number): void {
      all += facts
      done += facts
      if (performance.now() - toldMs > EVERY_MS) show()
    },
    sum: (): { facts: number, seconds: number } => ({ facts: all, seconds: (performance.now() - beginMs) / 1000 })
  }
}
