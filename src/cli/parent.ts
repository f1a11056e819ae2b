const LOOK_EVERY_MS = 500

/** Ends this process as SIGTERM does, within half a second after the process that started it has ended. For what npm
 *  starts: `npx` runs a shell that a signal ends and that does not pass it on. */
export function endWithParent (): void {
  const parent = process.ppid
  const looking = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(looking)
    process.kill(process.pid, 'SIGTERM')
  }, LOOK_EVERY_MS)
  looking.unref()
}
