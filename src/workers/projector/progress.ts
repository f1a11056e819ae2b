/** How far a rebuild has come. */
export interface RebuildProgress {
  stage: 'facts' | 'indexes' | 'catching up'
  /** Facts. */
  done: number
  total: number
  perS: number
  /** Seconds until the facts are read; null = not known. */
  leftS: number | null
}

export type OnProgress = (progress: RebuildProgress) => void

/** `43 %, 2 min left`; for the other stages, what is being done. */
export function progressText ({ stage, done, total, leftS }: RebuildProgress): string {
  if (stage === 'indexes') return 'creating indexes'
  if (stage === 'catching up') return 'catching up'
  const share = `${total === 0 ? 100 : Math.floor(done / total * 100)} %`
  return leftS === null ? share : `${share}, ${leftText(leftS)} left`
}

export function leftText (seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`
}

const EVERY_MS = 200
/** Before then a rate says nothing. */
const WARM_S = 1

/** Counts the facts that are read, and reports a few times a second. */
export interface ProgressMeter {
  begin(stage: RebuildProgress['stage'], total: number): void
  add(facts: number): void
  /** Over all stages. */
  sum(): { facts: number, seconds: number }
}

export function createProgressMeter (report: OnProgress): ProgressMeter {
  const beginMs = performance.now()
  let stage: RebuildProgress['stage'] = 'facts'
  let [all, done, total, stageMs, reportedMs] = [0, 0, 0, beginMs, -Infinity]

  function show (): void {
    reportedMs = performance.now()
    const seconds = (reportedMs - stageMs) / 1000
    const perS = seconds < WARM_S ? 0 : done / seconds
    const leftS = perS === 0 || stage === 'indexes' ? null : Math.max(0, total - done) / perS
    report({ stage, done, total: Math.max(done, total), perS, leftS })
  }

  return {
    begin (next, of) {
      stage = next
      total = of
      done = next === 'indexes' ? of : 0
      stageMs = performance.now()
      show()
    },
    add (facts) {
      all += facts
      done += facts
      if (performance.now() - reportedMs > EVERY_MS) show()
    },
    sum: () => ({ facts: all, seconds: (performance.now() - beginMs) / 1000 })
  }
}
