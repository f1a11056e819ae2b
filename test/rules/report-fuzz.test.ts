import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readReport } from '#src/feedback/report.ts'
import { LONG } from '../support/long.ts'

const ROUNDS = LONG ? 100_000 : 500
const FOLDER = join(import.meta.dirname, '../fixtures/bounces')
const SEEDS = readdirSync(FOLDER).filter(name => name.endsWith('.eml')).map(name => readFileSync(join(FOLDER, name)))
const KINDS = new Set(['hard', 'complaint', 'unsubscribe', 'soft', 'auto-reply', 'delivered', 'none'])
const SPLINTERS = [
  '\r\n',
  '\n\n',
  '\0',
  '--',
  ';',
  '<',
  '>',
  '@',
  ' '.repeat(3000),
  '('.repeat(2000),
  '=?utf-8?Q?=FF?=',
  '=?iso-2022-jp?B?GyRC?=',
  '\x1b$B',
  '\xff\xfe',
  'Content-Type: multipart/report; boundary=x\r\n',
  'Content-Transfer-Encoding: base64\r\n',
  'Final-Recipient: rfc822;',
  'Action: failed\r\n',
  'Feedback-Type: abuse\r\n',
  'a@'.repeat(1000),
  '<a@b.example> '.repeat(200),
  '>'.repeat(1000),
  '5.1.1'.repeat(300),
  '-'.repeat(4000)
]

/** Numbers in [0, n) from a seed, the same each time (mulberry32). */
function numbers (seed: number): (n: number) => number {
  let state = seed
  return n => {
    state = (state + 0x6D2B79F5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor(((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296 * n)
  }
}

function mutate (message: Buffer, any: (n: number) => number): Buffer {
  const from = any(message.length + 1)
  const length = any(200)
  switch (any(6)) {
    case 0:
      return Buffer.concat([
        message.subarray(0, from),
        Buffer.from(SPLINTERS[any(SPLINTERS.length)]!, 'latin1'),
        message.subarray(from)
      ])
    case 1:
      return Buffer.concat([message.subarray(0, from), message.subarray(from + length)])
    case 2:
      return Buffer.concat([
        message.subarray(0, from),
        ...Array.from({ length: any(50) }, () => message.subarray(from, from + length)),
        message.subarray(from)
      ])
    case 3:
      return message.subarray(0, from)
    case 4:
      return Buffer.concat([message.subarray(0, from), SEEDS[any(SEEDS.length)]!.subarray(any(500))])
    default:
      return Buffer.from(message.map(octet => any(40) === 0 ? any(256) : octet))
  }
}

t.test(`${ROUNDS.toLocaleString('en')} mutilated reports are read without a fault`, { timeout: 1_800_000 }, async t => {
  const any = numbers(20261121)
  const faults: string[] = []
  let slowestMs = 0
  // The first one pays for compiling all patterns.
  for (const seed of SEEDS) await readReport(seed)
  const memory: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    let message: Buffer = SEEDS[any(SEEDS.length)]!
    for (let times = any(5); times >= 0; times--) message = mutate(message, any)
    const startMs = performance.now()
    const report = await readReport(message).catch((error: unknown) => void faults.push(`${round}: ${String(error)}`))
    slowestMs = Math.max(slowestMs, performance.now() - startMs)
    if (report !== undefined && !isSound(report)) faults.push(`${round}: ${JSON.stringify(report).slice(0, 300)}`)
    if (round % (ROUNDS / 10) === 0) memory.push(Math.round(process.memoryUsage().heapUsed / 1e6))
  }
  if (LONG) t.comment(`slowest ${slowestMs.toFixed(0)} ms, heap in MB along the way: ${memory.join(' ')}`)
  t.strictSame(faults.slice(0, 5), [])
})

function isSound ({ kind, recipients, evidence, subject }: Awaited<ReturnType<typeof readReport>>): boolean {
  const strings = Object.values(evidence).flat()
  const all = [
    ...strings,
    subject ?? '',
    ...recipients.flatMap(one => [one.address ?? '', one.reason, one.diagnostic ?? '', one.remoteMta ?? ''])
  ]
  if (all.some(text => /[^\P{Cc}\n\t]/u.test(text) || !text.isWellFormed())) return false
  return KINDS.has(kind) && recipients.length <= 50 && (subject?.length ?? 0) <= 1000 && strings.length <= 60 &&
    strings.every(text => text.length <= 998) &&
    recipients.every(one =>
      KINDS.has(one.kind) && (one.diagnostic?.length ?? 0) <= 1000 && (one.address?.length ?? 0) <= 800 &&
      (one.remoteMta?.length ?? 0) <= 255
    )
}
