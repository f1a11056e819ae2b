import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { atExit } from './at-exit.ts'

const CHILD = fileURLToPath(new URL('chromium-child.ts', import.meta.url))
const PROCESSES = 2

t.test('test files that need the browser at the same time get it, where it was never unpacked', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-chromium-'))
  const cache = join(folder, 'cache')
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const answers = Array.from({ length: PROCESSES }, async () => {
    const child = fork(CHILD, [cache], { stdio: 'inherit', env: { ...process.env, TMPDIR: folder } })
    atExit(() => child.kill('SIGKILL'))
    const [answer] = await Promise.race([once(child, 'message'), once(child, 'exit').then(() => [null])])
    return answer
  })
  const [first, ...others] = await Promise.all(answers)
  t.match(first, { path: /chromium$/, version: /Chrom/ })
  for (const other of others) t.strictSame(other, first)
  t.equal(readdirSync(cache).length, 1, 'what the others unpacked is gone')
})
