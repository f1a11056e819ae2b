const ends = new Set<() => void>()

/** Runs `end` when this process ends, also by tap's SIGTERM: no teardown runs then, and what a test started would
 *  outlive it. Whatever `end` throws is passed over, as what it is for may have ended before. */
export function atExit (end: () => void): void {
  if (ends.size === 0) {
    process.once('SIGTERM', () => process.exit(143))
    process.once('exit', endAll)
  }
  ends.add(end)
}

function endAll (): void {
  for (const end of ends) {
    try {
      end()
    } catch { /* it has ended */ }
  }
}
