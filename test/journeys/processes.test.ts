import { readFileSync } from 'node:fs'
import t from 'tap'
import { openWorld, smallMail } from '../support/reckoning.ts'
import { signal, startTree, untilGone, type Tree } from '../support/tree.ts'
import { until } from '../support/wait.ts'

/** Of the process that has all roles but `api`; null = there is none. */
function workersOf (tree: Tree): number | null {
  return tree.family().find(pid => commandOf(pid).includes('workers-process.ts')) ?? null
}

/** Empty when it is gone. */
function commandOf (pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}

async function isReady (tree: Tree): Promise<boolean> {
  return (await tree.request('GET', '/readyz')).status === 200
}

t.test('the api and the other roles are two processes, of which either may die', async t => {
  const world = await openWorld(t)
  const tree = await startTree({ env: { JETPOST_PROCESSES: '2', SMTP_URL: world.smtpUrl } })
  t.teardown(tree.dispose)
  let sent = 0
  const send = async () => {
    const { status } = await tree.request('POST', '/api/emails', JSON.parse(smallMail(sent++)))
    t.equal(status, 202, 'accepted')
  }

  await send()
  await until(() => world.mail.received.length === sent)
  const first = workersOf(tree)!
  signal(first, 'SIGKILL')
  await until(() => workersOf(tree) !== first)
  await send()
  // What was handed to the one that died is handed out again after the consumer's ack wait.
  await until(() => world.mail.received.length === sent, 90_000)
  t.match(tree.log(), '"msg":"the workers ended"', 'the log tells of it')
  await until(async () => await isReady(tree))

  const workers = workersOf(tree)!
  signal(workers, 'SIGSTOP')
  await until(async () => !await isReady(tree))
  const frozen = await tree.request('GET', '/readyz')
  t.notOk(frozen.body.parts.find(({ name }: { name: string }) => name === 'sender').ready)
  await send()
  t.match((await tree.request('GET', '/metrics')).body, 'jetpost_http_request_seconds', 'the api tells its own figures')
  signal(workers, 'SIGCONT')
  await until(() => world.mail.received.length === sent)
  await until(async () => await isReady(tree))
  const { body } = await tree.request('GET', '/metrics')
  t.match(body, /^jetpost_smtp_attempts_total\{result="delivered"\} \d/m, 'and those of the workers')
  t.match(body, /^jetpost_projection_lag_facts\{projection="emails"\} \d/m)

  // As a service manager does, which tells all processes.
  signal(workers, 'SIGTERM')
  const family = tree.family()
  t.equal((await tree.stop()).code, 0, 'they stop together')
  await untilGone(family)
  await tree.start()
  const again = tree.family()
  signal(tree.pid(), 'SIGKILL')
  await untilGone(again)
  t.strictSame(tree.family(), [], 'nothing outlives the first process')
})

t.test('one process is enough where one is asked for', async t => {
  const tree = await startTree({ env: { JETPOST_PROCESSES: '1' } })
  t.teardown(tree.dispose)
  t.equal(workersOf(tree), null)
  t.ok(await isReady(tree))
  t.equal((await tree.stop()).code, 0)
})
