import { execute } from '#src/cli.ts'

export interface Ended {
  code: number
  out: string
  err: string
}

let before: Promise<unknown> = Promise.resolve()

/** Runs a command line in this process, where starting another would prove no more: what it printed, and the exit code
 *  of its process. One after the other: settings and the console are everybody's. For commands that print by the
 *  console and end by themselves. */
export function jetpostHere (args: string[], env: Record<string, string>): Promise<Ended> {
  const run = before.then(async () => await runAlone(args, env))
  before = run.catch(() => {})
  return run
}

async function runAlone (args: string[], env: Record<string, string>): Promise<Ended> {
  const own = {
    env: process.env,
    exitCode: process.exitCode,
    log: console.log,
    error: console.error,
    write: process.stderr.write
  }
  let out = ''
  let err = ''
  process.env = { PATH: own.env.PATH, ...env }
  process.exitCode = 0
  console.log = text => {
    out += `${text}\n`
  }
  console.error = text => {
    err += `${text}\n`
  }
  process.stderr.write = (text: string | Uint8Array) => {
    err += String(text)
    return true
  }
  try {
    await execute(args)
    return { code: Number(process.exitCode), out, err }
  } finally {
    process.env = own.env
    process.exitCode = own.exitCode
    console.log = own.log
    console.error = own.error
    process.stderr.write = own.write
  }
}
