import { createHash } from 'node:crypto'
import t from 'tap'
import { classify, verdictOnAddress } from '#src/feedback/classify.ts'
import { parseReply } from '#src/feedback/reply.ts'
import { readReport } from '#src/feedback/report.ts'
import { isGone } from '#streams/email/classes.ts'
import type { SmtpStage } from '#streams/email/decide.ts'
import { DOCUMENTED } from '../fixtures/replies-documented.ts'
import { DOCUMENTED_MAILS } from '../fixtures/replies-documented-mails.ts'
import { GONE } from '../fixtures/replies-gone.ts'
import { MORE_GONE } from '../fixtures/replies-more-gone.ts'
import { MORE } from '../fixtures/replies-more.ts'
import { ONCE_MISREAD } from '../fixtures/replies-once-misread.ts'
import { RECIPIENT } from '../fixtures/replies-recipient.ts'
import { REPORT_FORMS, reportOf } from '../fixtures/replies-reported.ts'
import { SENDER } from '../fixtures/replies-sender.ts'
import { WAY } from '../fixtures/replies-way.ts'
import { LONG } from '../support/long.ts'

/** What a fixture must come out as; the first class is the exact one. */
interface Label {
  kind: string
  status: string | null
  classes: string[]
  address: string
  stage: SmtpStage | null
}

/** `half` = whether the rules were written with it in view. */
interface Sample extends Label {
  half: 'seen' | 'unseen'
  name: string
  text: string
}

interface Reading {
  sample: Sample
  kind: string
  status: string | null
  class: string | null
  address: string | null
}

const SEED = 'documented-2026'
const TO = 'ada@example.net'

const halfOf = (text: string): Sample['half'] =>
  createHash('sha256').update(`${SEED}\n${text}`).digest()[0]! % 2 === 0 ? 'seen' : 'unseen'
const orNull = (word: string): string | null => word === '-' || word.endsWith('.0.0') ? null : word

const REPLIES = DOCUMENTED.trim().replaceAll('⏎\n', '⏎').split('\n').map((line): Sample => {
  const [stage, status, classes, ...words] = line.split(' ')
  const text = words.join(' ').replaceAll('⏎', '\n')
  const known = { classes: classes!.split(','), status: orNull(status!), stage: orNull(stage!) as SmtpStage | null }
  const kind = isGone(known.classes[0]!) ? 'hard' : 'soft'
  return { ...known, kind, address: TO, half: halfOf(text), name: text, text }
})
const MAILS = DOCUMENTED_MAILS.trim().split(/^=== /m).slice(1).map((block): Sample => {
  const [head, text] = [block.slice(0, block.indexOf('\n')), block.slice(block.indexOf('\n') + 1)]
  const [label, name] = head.split(' | ')
  const [kind, status, classes, address] = label!.split(' ')
  const known = { kind: kind!, status: orNull(status!), classes: classes!.split(','), address: address!, stage: null }
  return { ...known, half: halfOf(text), name: name!, text }
})

function readReply (sample: Sample): Reading {
  const reply = parseReply(sample.text)
  const clues = { code: reply?.code ?? null, status: reply?.enhanced ?? null }
  const found = classify({ text: sample.text, ...clues, stage: sample.stage })
  return { sample, kind: verdictOnAddress(found, clues), status: sample.status, class: found, address: TO }
}

async function readMail (sample: Sample, raw: string): Promise<Reading> {
  const report = await readReport(Buffer.from(raw.replaceAll(/\r?\n/g, '\r\n')))
  const one = report.recipients.find(({ address }) => address === sample.address) ?? report.recipients[0]
  return {
    sample,
    kind: report.kind,
    status: one?.status ?? null,
    class: one?.reason ?? null,
    address: one?.address ?? null
  }
}

/** `5.0.0` says nothing. */
const told = (status: string | null): string | null => status?.endsWith('.0.0') === true ? null : status
const share = (parts: boolean[]): number => 100 * parts.filter(part => part).length / parts.length

function figuresOf (readings: Reading[]) {
  const bounces = readings.filter(({ sample: { kind } }) => kind === 'hard' || kind === 'soft')
  const called = readings.filter(({ kind }) => kind === 'hard')
  const isHard = ({ sample }: Reading) => sample.kind === 'hard'
  const isAfterData = ({ sample, class: why }: Reading) => sample.stage === 'data' && why === 'userunknown'
  return {
    kind: share(readings.map(({ sample, kind }) => sample.kind === kind)),
    exact: share(bounces.map(({ sample, class: why }) => sample.classes[0] === why)),
    lenient: share(bounces.map(({ sample, class: why }) => sample.classes.includes(why ?? ''))),
    precision: share(called.map(isHard)),
    'precision, none after DATA': share(called.map(reading => isHard(reading) && !isAfterData(reading))),
    recall: share(readings.filter(isHard).map(({ kind }) => kind === 'hard')),
    status: share(bounces.map(({ sample, status }) => sample.status === told(status))),
    address: share(readings.map(({ sample, address }) => sample.address === address))
  }
}

/** Prints the figures of both halves, and the mistakes of the half that may be looked at. */
function tell (heading: string, readings: Reading[]) {
  const [seen, unseen] = (['seen', 'unseen'] as const).map(half => {
    const part = readings.filter(({ sample }) => sample.half === half)
    const figures = figuresOf(part)
    const words = Object.entries(figures).map(([name, value]) => `${name} ${value.toFixed(1)} %`).join(', ')
    t.comment(`${heading}, ${half}, ${part.length}: ${words}`)
    return figures
  })
  for (const { sample, ...got } of readings) {
    if (sample.half !== 'seen' || isRight(sample, got)) continue
    const wanted = [sample.kind, sample.status, sample.classes.join(), sample.address].join(' ')
    const read = [got.kind, got.status, got.class, got.address].join(' ')
    t.comment(`${wanted}, read as ${read}: ${sample.stage ?? ''} ${sample.name}`)
  }
  return { seen: seen!, unseen: unseen! }
}

function isRight (sample: Sample, got: Omit<Reading, 'sample'>): boolean {
  const isBounce = sample.kind === 'hard' || sample.kind === 'soft'
  return sample.kind === got.kind && sample.address === got.address &&
    (!isBounce || (sample.classes.includes(got.class ?? '') && sample.status === told(got.status)))
}

t.test('documented replies', async t => {
  const { seen, unseen } = tell('replies', REPLIES.map(readReply))
  t.ok(REPLIES.length >= 150)
  t.ok(seen.exact >= 90 && seen.lenient >= 98 && seen.precision >= 97 && seen.recall >= 97, 'seen')
  t.ok(unseen.exact >= 77 && unseen.lenient >= 86 && unseen.precision >= 86 && unseen.recall >= 92, 'unseen')
})

t.test('documented replies, as Postfix, Exim, sendmail, qmail and status parts report them', async t => {
  const readings = REPLIES.map(async (sample, n) => {
    const form = REPORT_FORMS[n % REPORT_FORMS.length]!
    const isTold = form === 'status' || (sample.status !== null && sample.text.includes(sample.status))
    const told = { ...sample, status: isTold ? sample.status : null, name: `${form}: ${sample.name}` }
    return await readMail(told, reportOf({ ...told, form, to: TO }))
  })
  const { seen, unseen } = tell('reported', await Promise.all(readings))
  t.ok(seen.exact >= 90 && seen.lenient >= 98 && seen.precision >= 97 && seen.recall >= 97, 'seen')
  t.ok(unseen.exact >= 77 && unseen.lenient >= 86 && unseen.precision >= 86 && unseen.recall >= 92, 'unseen')
  for (const { status, address } of [seen, unseen]) t.ok(status === 100 && address === 100, 'status and address')
})

t.test('documented mails', async t => {
  const { seen, unseen } = tell('mails', await Promise.all(MAILS.map(sample => readMail(sample, sample.text))))
  t.ok(MAILS.length >= 40)
  t.ok(seen.kind === 100 && seen.lenient >= 98 && seen.precision === 100 && seen.address === 100, 'seen')
  t.ok(unseen.kind === 100 && unseen.lenient >= 93 && unseen.precision === 100 && unseen.address >= 94, 'unseen')
})

t.test('a report of a reply says what the reply itself says, at every stage and in every form', async t => {
  const tables = [GONE, RECIPIENT, SENDER, WAY, MORE_GONE, MORE, ONCE_MISREAD].flatMap(table => Object.values(table))
  const lines = tables.flatMap(table => table.trim().replaceAll('⏎\n', '⏎').split('\n'))
  const replies = lines.map(line => line.split(' ')).filter(([stage, code]) => stage !== '-' && /^[45]\d\d/.test(code!))
  t.ok(replies.length > 1000)
  for (const [n, [word, ...words]] of replies.entries()) {
    for (const form of LONG ? REPORT_FORMS : [REPORT_FORMS[n % REPORT_FORMS.length]!]) {
      const [stage, text] = [word as SmtpStage, words.join(' ').replaceAll('⏎', '\n')]
      const said = classify({ text, status: null, code: null, stage })
      const { recipients } = await readReport(Buffer.from(reportOf({ form, to: TO, text, stage })))
      if (recipients.length !== 1 || recipients[0]!.reason !== said || recipients[0]!.address !== TO) {
        t.fail(`${form}, ${stage}: ${text}`, { said, recipients })
      }
    }
  }
})
