import type { InboundReceived } from '#streams/inbound/facts.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getMessage, lastSequence, sequenceBefore } from '#src/nats/get.ts'
import { tryDecode, type DecodedMessage } from '#src/nats/message.ts'
import { readMessages } from '#src/nats/range.ts'

/** A mail that came in, as it was stored. */
export interface InboundMailSummary {
  /** In INBOUND. */
  seq: number
  id: string
  /** Of the envelope; '' = a bounce. */
  from: string
  to: string[]
  /** As in the header, with encoded words; null = none. */
  subject: string | null
  remote: string
  sizeBytes: number
  at: string
}

/** `older` = where the next page begins; null = that was all. `unread` = how many this code cannot read. */
export interface InboundMailPage {
  mails: InboundMailSummary[]
  older: number | null
  unread: number
}

export interface InboundMailOptions {
  /** Only mail that came before this sequence; null = all. */
  before: number | null
  /** Leaves out what programs answer: bounces, complaints, unsubscriptions. */
  onlyToPeople: boolean
}

const STREAM = 'INBOUND'
const PAGE = 25
/** A page reads so many windows of the stream at most, and stops earlier when the mails are large. One that holds none,
 *  but what relays report, costs little. */
const WINDOW = 10
const WINDOWS_MAX = 30
const EMPTY_WINDOWS_MAX = 300
const LOOKED_AT_CHARS_MAX = 16 * 1024 * 1024
const BYTES_MAX = 1024 * 1024

/** The newest first. `older` may be set when this page is empty. Throws what `isUnanswered` knows. */
export async function readInboundMail (
  bus: Bus,
  { before, onlyToPeople }: InboundMailOptions
): Promise<InboundMailPage> {
  const [last, beforeFirst] = await Promise.all([lastSequence(bus, STREAM), sequenceBefore(bus, STREAM, 0)])
  const mails: InboundMailSummary[] = []
  let end = Math.min(before ?? Infinity, last + 1)
  let [chars, unread, windows, empty] = [0, 0, 0, 0]
  while (
    windows < WINDOWS_MAX && empty < EMPTY_WINDOWS_MAX && chars < LOOKED_AT_CHARS_MAX && mails.length < PAGE &&
    end > beforeFirst + 1
  ) {
    const after = Math.max(beforeFirst, end - WINDOW - 1)
    const found = await readWindow(bus, after, end)
    mails.push(...found.mails.filter(({ to }) => !onlyToPeople || to.some(isToPeople)).reverse())
    if (found.mails.length + found.unread === 0) empty++
    else windows++
    chars += found.chars
    unread += found.unread
    end = after + 1
  }
  const page = mails.slice(0, PAGE)
  if (page.length < mails.length) end = page.at(-1)!.seq
  return { mails: page, older: end > beforeFirst + 1 ? end : null, unread }
}

/** Whether a mail to this address is for a person to read: programs answer the others. */
function isToPeople (address: string): boolean {
  return /^(?:abuse|postmaster)(?:@|$)/i.test(address)
}

/** What lies between two sequences, without its source, and how much that was. */
async function readWindow (
  bus: Bus,
  afterSeq: number,
  endSeq: number
): Promise<{ mails: InboundMailSummary[], chars: number, unread: number }> {
  const mails: InboundMailSummary[] = []
  let [chars, unread] = [0, 0]
  for (let seq = afterSeq;;) {
    const position = { filter: null, afterSeq: seq }
    const page = await readMessages(bus, STREAM, position, { max: endSeq - 1 - seq, bytesMax: BYTES_MAX })
    for (const one of page.messages.filter(({ seq: at }) => at < endSeq).map(tryDecode)) {
      if (one.fact?.type === 'inbound.reported') continue
      if (!isMail(one)) unread++
      else {
        mails.push(mailIn(one))
        chars += one.fact.data.raw.length
      }
    }
    seq = page.messages.at(-1)?.seq ?? endSeq
    if (page.pending === 0 || seq >= endSeq - 1) return { mails, chars, unread }
  }
}

/** A mail with its source as far as it is stored; null = it has expired, or this version cannot read it. Throws what
 *  `isUnanswered` knows. */
export async function readInboundMailAt (
  bus: Bus,
  seq: number
): Promise<{ about: InboundMailSummary, raw: Buffer } | null> {
  const message = await getMessage(bus, STREAM, { seq })
  const one = message === null ? null : tryDecode(message)
  return one === null || !isMail(one)
    ? null
    : { about: mailIn(one), raw: Buffer.from(one.fact.data.raw, 'base64') }
}

interface FoundMail {
  seq: number
  fact: InboundReceived
}

function isMail (found: Pick<DecodedMessage, 'seq' | 'fact'>): found is FoundMail {
  return found.fact?.type === 'inbound.received'
}

function mailIn (
  { seq, fact: { time, data: { inbound: id, from, to, remote, sizeBytes, raw } } }: FoundMail
): InboundMailSummary {
  return { seq, id, from, to, subject: subjectIn(raw), remote, sizeBytes, at: time }
}

/** 16 kB of a mail in base64. */
const HEAD_CHARS = 4 * Math.ceil(16 * 1024 / 3)
const SUBJECT_CHARS_MAX = 300

/** Read from its line alone: the mail may hold anything, and this is not the place to parse it. */
function subjectIn (base64: string): string | null {
  const head = Buffer.from(base64.slice(0, HEAD_CHARS), 'base64').toString().split(/\r?\n\r?\n/, 1)[0]!
  const line = head.split(/\r?\n(?![ \t])/).find(field => /^subject:/i.test(field))
  return line === undefined
    ? null
    : line.slice('subject:'.length).replaceAll(/\s+/g, ' ').trim().slice(0, SUBJECT_CHARS_MAX)
}
