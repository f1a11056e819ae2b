const ends = new Set<() => void>()

// tap stops a test by SIGTERM. Without a listener no `exit` is heard; with one of somebody else's alone, as the
// browser's, the process goes on.
process.once('SIGTERM', () => process.exit(143))
process.once('exit', endAll)

/** Runs `end` when this process ends, also by SIGTERM: no teardown runs then, and what a test started would outlive it.
 *  Whatever `end` throws is passed over, as what it is for may have ended before. */
export function atExit (end: () => void): void {
  ends.add(end)
}

function endAll (): void {
  for (const end of ends) {
    try {
      end()
    } catch { /* it has ended */ }
  }
}
