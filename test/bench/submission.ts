import { newSecret } from '#src/base/secret.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { postfixMissing, startPostfix } from '../support/postfix.ts'
import { startTree, TREE_KEY } from '../support/tree.ts'
import type { Bench, BenchContext, BenchServers } from './bench.ts'
import { startHelper } from './child.ts'
import type { Speed } from './load-child.ts'
import { median, ms, print, printNoise, ratio, rate } from './report.ts'
import type { SubmissionQuestion } from './submission-load-child.ts'
import { foreignCores, noiseNow } from './usage.ts'

const CONNECTIONS = 50
const FROM = 'hello@sandbox.jetpost.test'
const hasPostfix = postfixMissing() === false

/** Mails a second by SMTP submission, each 250 after the fsync, beside Postfix, which has neither TLS nor a login to
 *  do. */
export const submission: Bench<'submission'> = {
  about: 'mails that SMTP submission takes a second over 50 connections, beside Postfix where it is installed',
  rows: () => ['speeds.jetpost', ...(hasPostfix ? ['speeds.postfix', 'ratios.toPostfix'] : []), 'foreignCores'],
  async run (context) {
    const servers = await context.openServers()
    const ends: Array<() => unknown> = []
    try {
      return await inTurns(context, servers, end => void ends.push(end))
    } finally {
      for (const end of ends.reverse()) await end()
      await servers.stop()
    }
  }
}

async function inTurns (
  { sizes: { rounds, turnMs: durationMs }, say }: BenchContext<'submission'>,
  { natsUrl, databaseUrl }: BenchServers,
  teardown: (end: () => unknown) => void
): Promise<Record<string, unknown>> {
  const port = await choosePort(null, null, 'submission')
  const jetpost = await startTree({
    env: {
      NATS_URL: natsUrl,
      DATABASE_URL: databaseUrl,
      JETPOST_SECRET: newSecret(''),
      JETPOST_ROLES: 'api,submission',
      JETPOST_SUBMISSION_PORT: String(port)
    }
  })
  teardown(() => jetpost.dispose())
  teardown(() => jetpost.stop())
  const postfix = hasPostfix
    ? await startPostfix({ teardown }, { bounces: { domain: 'bounces.example', port }, users: ['ada'] })
    : null
  const loader = startHelper('submission-load-child.ts')
  teardown(() => loader.stop())
  const load = async (wish: Pick<SubmissionQuestion, 'port' | 'key' | 'to'>) =>
    await loader.ask<Speed>(
      { from: FROM, connections: CONNECTIONS, durationMs, ...wish } satisfies SubmissionQuestion,
      durationMs + 60_000
    )
  const ours: Speed[] = []
  const theirs: Speed[] = []
  const noise = noiseNow()
  for (let round = 0; round < rounds; round++) {
    ours.push(await load({ port, key: TREE_KEY, to: 'ada@example.net' }))
    if (postfix !== null) theirs.push(await load({ port: postfix.port, key: null, to: 'ada@peer.test' }))
  }
  const foreign = foreignCores(noise, noiseNow())
  const speeds = { jetpost: middle(ours), ...(postfix === null ? {} : { postfix: middle(theirs) }) }
  const rows = Object.entries(speeds).map((
    [name, { perS, p50Ms, p99Ms, failed }]
  ) => [name, rate(perS), ms(p50Ms), ms(p99Ms), String(failed)])
  print(
    say,
    `Mails a second over ${CONNECTIONS} connections, 2 kB each; medians of ${rounds} rounds taken in turns`,
    [['', 'a second', 'p50 ms', 'p99 ms', 'not taken'], ...rows]
  )
  if (postfix === null) say('Postfix is not installed, or this is not root: there is nothing beside it.')
  printNoise(say, foreign)
  const toPostfix = speeds.postfix === undefined ? null : speeds.jetpost.perS / speeds.postfix.perS
  if (toPostfix !== null) say(`Jetpost takes ${ratio(toPostfix)} times what Postfix takes.`)
  return { speeds, ...(toPostfix === null ? {} : { ratios: { toPostfix } }), foreignCores: foreign }
}

function middle (speeds: Speed[]): Speed {
  return {
    perS: median(speeds.map(({ perS }) => perS)),
    p50Ms: median(speeds.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(speeds.map(({ p99Ms }) => p99Ms)),
    failed: speeds.reduce((sum, { failed }) => sum + failed, 0)
  }
}
