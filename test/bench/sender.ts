import type { Bench, BenchContext, BenchServers } from './bench.ts'
import { startHelper } from './child.ts'
import { median, ms, print, printNoise, rate, ratio } from './report.ts'
import type { SenderQuestion, SenderSpeed } from './sender-child.ts'
import { foreignCores, noiseNow, usageOfOne } from './usage.ts'
import type { Where, WorldQuestion } from './world-child.ts'

const CONNECTIONS = 50
const CONTENDERS = ['jetpost', 'jetpost, both signatures', 'nodemailer pool'] as const

type Contender = typeof CONTENDERS[number]
type Turn = SenderSpeed & { natsMs: number }

/** What a mail costs from the log to an SMTP sink: 24 KB of html, tracked, one RSA signature (and a second one apart),
 *  beside nodemailer's pool, which is given the tracked html and a text. Each contender has a process of its own, in
 *  turns. */
export const sender: Bench<'sender'> = {
  about: "CPU of a mail from the log to an SMTP sink, beside nodemailer's pool",
  rows: () => [...CONTENDERS.map(name => `figures.${name}`), 'foreignCores'],
  async run (context) {
    const servers = await context.openServers({ postgres: false })
    const before = noiseNow()
    try {
      const found = new Map<Contender, Turn[]>(CONTENDERS.map(name => [name, []]))
      for (let round = 0; round < context.sizes.rounds; round++) {
        for (const name of CONTENDERS) found.get(name)!.push(await turn(name, context, servers))
      }
      return report(context, found, foreignCores(before, noiseNow()))
    } finally {
      await servers.stop()
    }
  }
}

async function turn (
  name: Contender,
  { sizes: { warm, messages } }: BenchContext<'sender'>,
  { natsUrl, natsPid }: BenchServers
): Promise<Turn> {
  const world = startHelper('world-child.ts')
  const child = startHelper('sender-child.ts')
  try {
    const { smtpUrl } = await world.ask<Where>({ ask: 'where' } satisfies WorldQuestion, 20_000)
    const natsBefore = usageOfOne(natsPid).cpuMs
    const question: SenderQuestion = {
      natsUrl,
      smtpUrl,
      warm,
      mails: messages,
      connections: CONNECTIONS,
      how: name === 'nodemailer pool' ? 'nodemailer' : 'jetpost',
      keys: name === 'jetpost, both signatures' ? 2 : 1
    }
    const speed = await child.ask<SenderSpeed>(question, 180_000)
    return { ...speed, natsMs: (usageOfOne(natsPid).cpuMs - natsBefore) / (warm + messages) }
  } finally {
    await child.stop()
    await world.stop()
  }
}

function report (
  { sizes: { rounds, messages }, say }: BenchContext<'sender'>,
  found: Map<Contender, Turn[]>,
  foreign: number
): Record<string, unknown> {
  const figures = Object.fromEntries([...found].map(([name, turns]) => [name, {
    cpuMsAnEmail: median(turns.map(turn => turn.cpuMs)),
    natsMsAnEmail: median(turns.map(turn => turn.natsMs)),
    perS: median(turns.map(turn => turn.perS))
  }]))
  const base = figures['nodemailer pool']!
  print(
    say,
    `Sending ${messages} mails of 24 KB html to an SMTP sink over ${CONNECTIONS} connections, medians of ${rounds}`,
    [
      ['', 'CPU ms an email', "nodemailer's ÷ its", 'NATS ms an email', 'a second'],
      ...Object.entries(figures).map(([name, { cpuMsAnEmail, natsMsAnEmail, perS }]) => [
        name,
        ms(cpuMsAnEmail),
        ratio(base.cpuMsAnEmail / cpuMsAnEmail),
        name === 'nodemailer pool' ? '-' : ms(natsMsAnEmail),
        rate(perS)
      ])
    ]
  )
  printNoise(say, foreign)
  return { figures, foreignCores: foreign }
}
