import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { atExit } from './at-exit.ts'
import { COMPILED } from './compiled.ts'

export const BIN = fileURLToPath(new URL('../../src/bin.js', import.meta.url))

/** Runs the program as an operator would, in the folder `cwd`, with nothing of ours in its environment but `env`;
 *  resolves to what it printed and its exit code. */
export async function jetpost (
  args: string[],
  env: Record<string, string>,
  cwd?: string
): Promise<{ code: number | null, out: string, err: string }> {
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...COMPILED, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  atExit(() => child.kill('SIGKILL'))
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', text => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    err += text
  })
  const code = await new Promise<number | null>((resolve, reject) => child.on('close', resolve).on('error', reject))
  return { code, out, err }
}
