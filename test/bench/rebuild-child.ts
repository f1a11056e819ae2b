// What the bench `rebuild` has processes of their own for: one makes a view, one is the service meanwhile.
import { setTimeout as wait } from 'node:timers/promises'
import { emails } from '#projections/emails/project.ts'
import { getEmail, listEmails } from '#projections/emails/queries.ts'
import { createFactLog, type FactLog } from '#src/actions/fact-log.ts'
import { systemClock } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { openRebuilder, type RebuildResult } from '#src/workers/projector/rebuild.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { createCheckpoints } from '#src/workers/projector/commit.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { answerWith } from './child.ts'
import { ACCOUNT, loadMail, mailOf } from './rebuild-facts.ts'

export type RebuildQuestion =
  & { natsUrl: string, databaseUrl: string }
  & (
    | { ask: 'load', emails: number }
    | { ask: 'build' }
    /** Is the service, with so many emails a second, until asked to stop. */
    | { ask: 'serve', perS: number, from: number }
    | { ask: 'stop' }
  )

export interface Built extends RebuildResult {
  /** Seconds until the last fact was read; the rest is indexes and the change of places. */
  readS: number
  /** Of this process, every half second, in MB. */
  rssMb: number[]
}

/** What became of being read and written meanwhile. */
export interface Served {
  sent: number
  /** From the first to the last of an email's three appends, the longest. */
  worstSendMs: number
  reads: number
  failed: number
  missing: number
  worstMs: number
}

const EVERY_MS = 500
/** As patient as what records an outcome: a disk that others keep busy makes the log wait, and nothing may be lost
 *  by it. */
const APPEND_MS = 600_000
const log = createLog('silent')
let serving: { stop(): Promise<Served> } | null = null

answerWith<RebuildQuestion>(async question => {
  if (question.ask === 'stop') return await serving!.stop()
  const bus = await connectBus({ url: question.natsUrl, creds: null, name: `bench ${question.ask}`, log })
  const pool = createPool(question.databaseUrl, log)
  if (question.ask === 'serve') {
    serving = serve(bus, pool, question)
    return null
  }
  try {
    return question.ask === 'load' ? await loadMail(bus, question.emails) : await build(bus, pool, question)
  } finally {
    await pool.end()
    await bus.close()
  }
})

async function build (bus: Bus, pool: Pool, { natsUrl, databaseUrl }: RebuildQuestion): Promise<Built> {
  const rssMb: number[] = []
  const timer = setInterval(() => rssMb.push(Math.round(process.memoryUsage.rss() / 1e6)), EVERY_MS)
  const beginMs = performance.now()
  let readS = 0
  const filled = await openRebuilder({ bus, pool, log, natsUrl, databaseUrl }).rebuild(emails, {
    why: 'the bench',
    signal: new AbortController().signal,
    onProgress: ({ stage }) => {
      if (stage === 'indexes') readS ||= (performance.now() - beginMs) / 1000
    }
  })
  clearInterval(timer)
  return { ...filled!, readS, rssMb }
}

/** Writes mail at a rate, each email as its three appends come, and asks for it and for lists all the while. */
function serve (
  bus: Bus,
  pool: Pool,
  { perS, from }: Extract<RebuildQuestion, { ask: 'serve' }>
): { stop(): Promise<Served> } {
  const [projector] = createProjectors({
    bus,
    pool,
    log,
    projections: { emails },
    rebuild: openRebuilder({ bus, pool, log }).rebuild
  })
  const factLog = createFactLog(bus, systemClock)
  const view = createCheckpoints(bus, pool)
  const served: Served = { sent: 0, worstSendMs: 0, reads: 0, failed: 0, missing: 0, worstMs: 0 }
  const sent: string[] = []
  let goesOn = true

  const send = async (): Promise<void> => {
    const beginMs = performance.now()
    while (goesOn) {
      const due = Math.floor((performance.now() - beginMs) / 1000 * perS) - served.sent
      const startMs = performance.now()
      await Promise.all(
        Array.from(
          { length: Math.max(0, due) },
          async (_, k) => sent.push(await sendOne(factLog, from + served.sent + k))
        )
      )
      served.worstSendMs = Math.max(served.worstSendMs, Math.round(performance.now() - startMs))
      served.sent += Math.max(0, due)
      await wait(20)
    }
  }

  const read = async (): Promise<void> => {
    for (; goesOn; await wait(10)) {
      const beginMs = performance.now()
      const id = sent.at(-1)
      try {
        if (!await view.caughtUp(emails, 5000)) throw new Error('the view did not come')
        const page = await ask(
          pool,
          listEmails({
            account: ACCOUNT,
            filters: served.reads % 2 === 0 ? {} : { status: ['delivered' as const] },
            limit: 25,
            cursor: null
          })
        )
        const found = id === undefined ? null : await ask(pool, getEmail({ account: ACCOUNT, id }))
        if (page.data.length < 25 || (id !== undefined && found?.status !== 'delivered')) served.missing++
      } catch {
        served.failed++
      }
      served.reads++
      served.worstMs = Math.max(served.worstMs, Math.round(performance.now() - beginMs))
    }
  }

  const work = [send(), read(), read()]
  return {
    async stop () {
      goesOn = false
      await Promise.all(work)
      for (const id of sent) if (await ask(pool, getEmail({ account: ACCOUNT, id })) === null) served.missing++
      await projector!.stop()
      await pool.end()
      await bus.close()
      return served
    }
  }
}

async function sendOne (factLog: FactLog, i: number): Promise<string> {
  const { request, record, outcomes } = mailOf(i * 20, Date.now())
  const [seq] = await factLog.append([{ fact: request }], APPEND_MS)
  await factLog.append(outcomes(seq!).slice(0, 2).map(fact => ({ fact })), APPEND_MS)
  await factLog.append([{ fact: record(seq!) }], APPEND_MS)
  return (request.data as { email: string }).email
}
