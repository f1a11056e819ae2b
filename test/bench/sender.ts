import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '#src/base/log.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { startHelper } from './child.ts'
import { median, ms, print, rate, ratio } from './report.ts'
import type { SenderQuestion, SenderSpeed } from './sender-child.ts'
import { foreignCores, noiseNow, usageOfOne } from './usage.ts'
import type { Where, WorldQuestion } from './world-child.ts'

const ROUNDS = 3
const WARM = 500
const MAILS = 2500
const CONNECTIONS = 50
const CONTENDERS = ['jetpost', 'jetpost, both signatures', 'nodemailer pool'] as const

type Contender = typeof CONTENDERS[number]

/** What a mail costs from the log to an SMTP sink: 24 KB of html, tracked, one RSA signature (and a second one apart),
 *  beside nodemailer's pool, which is given the tracked html and a text. Each contender has a process of its own, in
 *  turns. */
export async function benchSender (): Promise<Record<string, unknown>> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-bench-'))
  const servers = await startEmbedded({
    dataDir,
    nats: true,
    postgres: false,
    natsBin: process.env.JETPOST_NATS_BIN || null,
    natsPort: null,
    postgresPort: null,
    log: createLog('error'),
    say: () => {}
  })
  const natsPid = Number(readFileSync(join(dataDir, 'nats', 'nats-server.pid'), 'utf8'))
  const before = noiseNow()
  try {
    const found = new Map<Contender, Array<SenderSpeed & { natsMs: number }>>(CONTENDERS.map(name => [name, []]))
    for (let round = 0; round < ROUNDS; round++) {
      for (const name of CONTENDERS) found.get(name)!.push(await turn(name, servers.natsUrl!, natsPid))
    }
    return report(found, foreignCores(before, noiseNow()))
  } finally {
    await servers.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function turn (name: Contender, natsUrl: string, natsPid: number): Promise<SenderSpeed & { natsMs: number }> {
  const world = startHelper('world-child.ts')
  const child = startHelper('sender-child.ts')
  try {
    const { smtpUrl } = await world.ask<Where>({ ask: 'where' } satisfies WorldQuestion, 20_000)
    const natsBefore = usageOfOne(natsPid).cpuMs
    const question: SenderQuestion = {
      natsUrl,
      smtpUrl,
      warm: WARM,
      mails: MAILS,
      connections: CONNECTIONS,
      how: name === 'nodemailer pool' ? 'nodemailer' : 'jetpost',
      keys: name === 'jetpost, both signatures' ? 2 : 1
    }
    const speed = await child.ask<SenderSpeed>(question, 180_000)
    return { ...speed, natsMs: (usageOfOne(natsPid).cpuMs - natsBefore) / (WARM + MAILS) }
  } finally {
    await child.stop()
    await world.stop()
  }
}

function report (
  found: Map<Contender, Array<SenderSpeed & { natsMs: number }>>,
  foreign: number
): Record<string, unknown> {
  const figures = Object.fromEntries([...found].map(([name, turns]) => [name, {
    cpuMsAnEmail: median(turns.map(turn => turn.cpuMs)),
    natsMsAnEmail: median(turns.map(turn => turn.natsMs)),
    perS: median(turns.map(turn => turn.perS))
  }]))
  const base = figures['nodemailer pool']!
  print(`Sending ${MAILS} mails of 24 KB html to an SMTP sink over ${CONNECTIONS} connections, medians of ${ROUNDS}`, [
    ['', 'CPU ms an email', "nodemailer's ÷ its", 'NATS ms an email', 'a second'],
    ...Object.entries(figures).map((
      [name, { cpuMsAnEmail, natsMsAnEmail, perS }]
    ) => [
      name,
      ms(cpuMsAnEmail),
      ratio(base.cpuMsAnEmail / cpuMsAnEmail),
      name === 'nodemailer pool' ? '-' : ms(natsMsAnEmail),
      rate(perS)
    ])
  ])
  console.log(
    `\n  Unauthenticated clients kept ${ms(foreign)} cores busy meanwhile${
      foreign > 0.3 ? ': repeat this on a quiet machine' : ''
    }.`
  )
  return { figures, foreignCores: foreign }
}
