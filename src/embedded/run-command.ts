import { spawn, type ChildProcess } from 'node:child_process'

const PASSED = /^(PATH|HOME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TZDIR|TMPDIR|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH)$/

/** The environment of a server that is no part of Jetpost: what programs need to run, and none of our secrets. */
export function serverEnv (): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED.test(name)))
}

const OUTPUT_CHARS_MAX = 100_000

export interface RunOptions {
  timeoutMs: number
  env?: NodeJS.ProcessEnv
  signal?: AbortSignal | undefined
  /** What it reads; nothing when left out. */
  input?: string
}

/** How a command ended. `code` is null when it was killed, timed out or could not be started; `output` is the end of
 *  stdout and stderr. */
export interface RunResult {
  code: number | null
  output: string
}

/** Runs a command to its end and never rejects. It and its children are killed after `timeoutMs` or on abort. It runs
 *  in a session of its own: Ctrl-C reaches Jetpost alone, which then decides. */
export function run (file: string, args: string[], { timeoutMs, env, signal, input }: RunOptions): Promise<RunResult> {
  return new Promise(resolve => {
    if (signal?.aborted) return resolve({ code: null, output: 'stopped' })
    const child = spawn(file, args, {
      detached: true,
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      env: env ?? process.env,
      cwd: '/'
    })
    child.stdin?.on('error', () => {}) // it ended before it had read all
    child.stdin?.end(input)
    const output = collect(child)
    const kill = (): void => killGroup(child)
    const timer = setTimeout(kill, timeoutMs)
    signal?.addEventListener('abort', kill)
    const end = (code: number | null, more: string): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', kill)
      resolve({ code, output: (output() + more).trim() })
    }
    child.once('error', error => end(null, error.message))
    child.once('close', code => end(code, ''))
  })
}

function collect (child: ChildProcess): () => string {
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      text = (text + chunk).slice(-OUTPUT_CHARS_MAX)
    })
  }
  return () => text
}

function killGroup (child: ChildProcess): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch { /* it has just ended */ }
}

/** The last line of a command's output: what it died of. */
export function lastLine (output: string): string {
  return output.trimEnd().split('\n').at(-1)?.trim() || 'no message'
}
