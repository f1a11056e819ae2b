import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { classify, verdictOnAddress } from '#src/feedback/classify.ts'
import { parseReply } from '#src/feedback/reply.ts'
import { readReport } from '#src/feedback/report.ts'

/** Replies and mails by people who had not seen the code, from memory of how servers write. `…s` = what they take for
 *  right as well. */
const FOLDER = join(import.meta.dirname, '..', 'fixtures', 'blind')

interface Reply {
  reply: string
  stage: 'connect' | 'ehlo' | 'mail' | 'rcpt' | 'data'
  class: string
  classes: string[]
  hard: boolean
  source: string
}
interface Mail {
  file: string
  kind: string
  kinds: string[]
  recipients: Array<{ address: string, addresses: string[], reason: string, reasons: string[] }>
  source: string
}

function linesOf<T> (name: string): T[] {
  return readFileSync(join(FOLDER, name), 'utf8').trim().split('\n').map(line => JSON.parse(line) as T)
}

const share = (parts: boolean[]): number => parts.filter(part => part).length / parts.length

/** How many of those called hard are, and how many of the hard are called so. */
function hardness (pairs: Array<{ said: boolean, is: boolean }>): { precision: number, recall: number } {
  return {
    precision: share(pairs.filter(({ said }) => said).map(({ is }) => is)),
    recall: share(pairs.filter(({ is }) => is).map(({ said }) => said))
  }
}

function tell (heading: string, figures: Record<string, number>): void {
  t.comment(
    `${heading}: ${Object.entries(figures).map(([name, value]) => `${name} ${(value * 100).toFixed(1)} %`).join(', ')}`
  )
}

t.test('replies by somebody who had not seen the rules', async t => {
  const rows = linesOf<Reply>('replies.jsonl')
  const read = rows.map(row => {
    const reply = parseReply(row.reply)
    const clues = { code: reply?.code ?? null, status: reply?.enhanced ?? null }
    const found = classify({ text: row.reply, ...clues, stage: row.stage })
    return { row, found, said: verdictOnAddress(found, clues) === 'hard', is: row.hard }
  })
  const { precision, recall } = hardness(read)
  const exact = share(read.map(({ row, found }) => row.class === found))
  const accepted = share(read.map(({ row, found }) => row.class === found || row.classes.includes(found)))
  tell(`${rows.length} replies`, {
    'class exact': exact,
    'class accepted': accepted,
    'hard precision': precision,
    'hard recall': recall
  })
  t.ok(exact >= 0.92 && accepted >= 0.97 && precision >= 0.98 && recall >= 0.97)
})

t.test('mails by somebody who had not seen the reader', async t => {
  const rows = linesOf<Mail>('mails.jsonl')
  const read = await Promise.all(
    rows.map(async row => ({ row, report: await readReport(readFileSync(join(FOLDER, 'mails', row.file))) }))
  )
  const { precision, recall } = hardness(
    read.map(({ row, report }) => ({ said: report.kind === 'hard', is: row.kind === 'hard' }))
  )
  const complaints = share(
    read.filter(({ row }) => row.kind === 'complaint').map(({ report }) => report.kind === 'complaint')
  )
  const kind = share(read.map(({ row, report }) => row.kind === report.kind || row.kinds.includes(report.kind)))
  const wanted = read.filter(({ row }) => row.kind === 'hard' || row.kind === 'soft').flatMap(({ row, report }) =>
    row.recipients.map(recipient => {
      const found = report.recipients.find(({ address }) =>
        address !== null &&
        [recipient.address, ...recipient.addresses].some(one => one.toLowerCase() === address.toLowerCase())
      )
      return { recipient, found, reason: (found ?? report.recipients[0])?.reason }
    })
  )
  const address = share(wanted.map(({ found }) => found !== undefined))
  const exact = share(wanted.map(({ recipient, reason }) => reason === recipient.reason))
  const accepted = share(
    wanted.map(({ recipient, reason }) => reason === recipient.reason || recipient.reasons.includes(reason ?? ''))
  )
  tell(`${rows.length} mails`, {
    kind,
    'class exact': exact,
    'class accepted': accepted,
    'address found': address,
    'hard precision': precision,
    'hard recall': recall,
    complaints
  })
  t.ok(
    kind >= 0.98 && exact >= 0.92 && accepted >= 0.96 && address >= 0.98 && precision >= 0.99 && recall >= 0.98 &&
      complaints >= 0.95
  )
})
