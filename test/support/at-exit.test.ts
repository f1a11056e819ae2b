import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { untilGone } from './tree.ts'

const CHILD = fileURLToPath(new URL('at-exit-child.ts', import.meta.url))

t.test('what a test started ends with it when tap is told to stop', async t => {
  const child = fork(CHILD, { stdio: 'inherit' })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const [program] = await once(child, 'message') as [number]
  child.kill('SIGTERM')
  t.strictSame(await once(child, 'exit'), [143, null])
  await untilGone([program])
})
