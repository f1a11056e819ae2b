import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { stripVTControlCharacters } from 'node:util'
import { atExit } from './at-exit.ts'
import { COMPILED } from './compiled.ts'

/** What a program takes to start on a busy machine. */
const SHOWS_MS = 90_000

/** A program that runs on a terminal of its own. */
export interface Terminal {
  /** All that it has written, codes included. */
  raw(): string
  /** The same without codes. */
  text(): string
  /** Resolves to the text once it matches; rejects with it when the program ends before, or after 90 s. */
  shows(pattern: RegExp): Promise<string>
  /** Types a line. */
  type(line: string): void
  /** The exit code. */
  ended: Promise<number | null>
}

/** Whether terminals can be made here: it takes util-linux's `script`. */
export const hasTerminals = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') ===
  true

/** Runs `jetpost` on a terminal that is `columns` wide, with nothing of ours in its environment but `env`. */
export function jetpostOnTerminal (
  t: { teardown(end: () => unknown): void },
  args: string[],
  { env, columns = 100 }: { env: Record<string, string>, columns?: number }
): Terminal {
  const words = [process.execPath, 'src/bin.js', ...args].map(word => `'${word}'`).join(' ')
  const command = `stty cols ${columns} rows 40 -echo; exec ${words}`
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    env: { PATH: process.env.PATH, SHELL: '/bin/sh', TERM: 'xterm-256color', ...COMPILED, ...env }
  })
  let raw = ''
  const text = () => stripVTControlCharacters(raw).replaceAll('\r\n', '\n')
  child.stdout.setEncoding('utf8').on('data', data => {
    raw += data
  })
  atExit(() => child.kill('SIGKILL'))
  t.teardown(() => void child.kill('SIGKILL'))
  return {
    raw: () => raw,
    text,
    shows: pattern =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (!pattern.test(text())) return
          clearTimeout(timer)
          resolve(text())
        }
        const give = (why: string) => reject(new Error(`${why}, and there is no ${pattern} in\n${text()}`))
        const timer = setTimeout(() => give('time is over'), SHOWS_MS)
        child.stdout.on('data', look)
        child.on('close', () => give('it has ended'))
        look()
      }),
    type: line => void child.stdin.write(`${line}\n`),
    ended: once(child, 'close').then(([code]) => code)
  }
}
