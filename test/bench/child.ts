import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { deadline } from '#src/base/errors.ts'

/** A script of this folder in a process of its own, so that what it costs is not paid by what it measures. Dies with
 *  `stop`. */
export interface Helper {
  pid: number
  /** Sends a question, resolves to the answer. One at a time. */
  ask<Answer>(question: unknown, timeoutMs: number): Promise<Answer>
  stop(): Promise<void>
}

/** `stderr` = a file's descriptor, for what is not to be seen: a log that is written as in production. */
export function startHelper (script: string, stderr: number | 'inherit' = 'inherit'): Helper {
  const child = spawn(process.execPath, [fileURLToPath(new URL(script, import.meta.url))], {
    stdio: ['ignore', 'inherit', stderr, 'ipc']
  })
  const exited = once(child, 'exit')
  return {
    pid: child.pid!,
    ask: (question, timeoutMs) => ask(child, exited, question, timeoutMs),
    async stop () {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await exited
    }
  }
}

async function ask<Answer> (
  child: ChildProcess,
  exited: Promise<unknown>,
  question: unknown,
  timeoutMs: number
): Promise<Answer> {
  const answer = once(child, 'message').then(([message]) => message as Answer)
  const ended = exited.then(() => {
    throw new Error('a helper of the bench ended before it answered')
  })
  ended.catch(() => {})
  child.send(question as object)
  return await deadline(
    Promise.race([answer, ended]),
    timeoutMs,
    `a helper of the bench did not answer within ${timeoutMs} ms`
  )
}

/** The helper's side: answers each question with what `handle` gives. Ends when the bench does. */
export function answerWith<Question> (handle: (question: Question) => Promise<unknown>): void {
  process.on('message', question => {
    void handle(question as Question).then(answer => process.send!(answer as object))
  })
  process.on('disconnect', () => process.exit(0))
}
