import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
import { sleep } from '#src/base/backoff.ts'
import { sendSignal } from './orphan.ts'

const STOP_MS = 10_000
const FORCE_MS = 2_000

/** What to run. `stopSignal` ends it cleanly; `forceSignal` follows after 10 s, KILL 2 s later. `logFile` takes its
 *  stdout and stderr. */
export interface Command {
  file: string
  args: string[]
  env: NodeJS.ProcessEnv
  logFile: string
  stopSignal: NodeJS.Signals
  forceSignal: NodeJS.Signals
}

/** How it ended: an exit code or a signal. */
export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface SupervisedProcess {
  pid: number
  exited: Promise<Exit>
  /** Ends it as `Command` says; resolves when it is gone, 12 s at most (and the time KILL takes). */
  stop(): Promise<void>
}

// fd 3 is a pipe whose other end only Jetpost holds. The watcher reads it. A line means "it has ended, go
// home"; end of file without a line means that Jetpost died, so the server is stopped. The shell then becomes the
// server (exec): its pid, its exit code and its signal are the server's own. The watcher is a grandchild, so that
// postgres does not find a child it never made.
const WATCHER = `
stop=$1 force=$2 tenths=$3
shift 3
( (
  if read -r word <&3; then exit 0; fi
  for signal in "$stop" "$force" KILL; do
    kill -s "$signal" $$ || exit 0
    n=0
    while [ "$n" -lt "$tenths" ]; do
      sleep 0.1
      kill -0 $$ || exit 0
      n=$((n + 1))
    done
    tenths=20
  done
) </dev/null >/dev/null 2>&1 & )
exec "$@" 3<&-
`

/** Starts a server in a session of its own (Ctrl-C in the terminal does not reach it before Jetpost has drained) that
 *  nevertheless dies with this process, even by kill -9. Throws when the shell cannot be started. */
export async function startSupervised (command: Command): Promise<SupervisedProcess> {
  const child = launch(command)
  const exited = new Promise<Exit>(resolve => child.once('exit', (code, signal) => resolve({ code, signal })))
  const pid = await started(child)
  const line = child.stdio[3] as Socket
  line.on('error', () => {}) // the watcher may be gone already
  void exited.then(() => line.end('ended\n'))
  return { pid, exited, stop: () => stop(pid, exited, command) }
}

function launch ({ file, args, env, logFile, stopSignal, forceSignal }: Command): ChildProcess {
  const log = openSync(logFile, 'a', 0o600)
  const watchedArgs = [
    '-c',
    WATCHER,
    'jetpost-watcher',
    bare(stopSignal),
    bare(forceSignal),
    String(STOP_MS / 100),
    file,
    ...args
  ]
  try {
    return spawn('/bin/sh', watchedArgs, { detached: true, env, cwd: '/', stdio: ['ignore', log, log, 'pipe'] })
  } finally {
    closeSync(log)
  }
}

/** `kill -s` wants the name without SIG (POSIX). */
function bare (signal: NodeJS.Signals): string {
  return signal.slice('SIG'.length)
}

async function started (child: ChildProcess): Promise<number> {
  if (child.pid !== undefined) return child.pid
  throw await new Promise<Error>(resolve => child.once('error', resolve))
}

async function stop (pid: number, exited: Promise<Exit>, { stopSignal, forceSignal }: Command): Promise<void> {
  const gone = new AbortController()
  void exited.then(() => gone.abort())
  await sleep(0) // an exit that has already happened is seen before a signal is sent to a pid that may be another's
  for (const [signal, waitMs] of [[stopSignal, STOP_MS], [forceSignal, FORCE_MS]] as const) {
    if (gone.signal.aborted) return
    sendSignal(pid, signal)
    await sleep(waitMs, gone.signal)
  }
  if (!gone.signal.aborted) sendSignal(pid, 'SIGKILL')
  await exited
}
