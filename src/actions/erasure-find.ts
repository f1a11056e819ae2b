import { domainToUnicode } from 'node:url'
import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import { ERASED, domainOf } from '#streams/address.ts'
import { isErased, type Clean } from '#streams/email/erase.ts'
import type { EmailErased, EmailRequested } from '#streams/email/facts.ts'
import type { InboundReceived, InboundReported } from '#streams/inbound/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { foldAddress } from '#streams/suppression/decide.ts'
import type { Tokens } from '#src/content/token.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import type { StoredMessage } from '#src/nats/message.ts'
import { readRange, type RangeOptions } from '#src/nats/range.ts'

/** Who is to be forgotten, and by which erasure. */
export interface Sought {
  account: string
  /** The erasure's id. */
  id: string
  /** The folded address. */
  address: string
}

/** Where the log knows the address as a recipient of an email. */
export interface Trace {
  email: string
  ns: Set<number>
  /** In REQUESTS. */
  requests: number[]
  /** Records in EMAILS. */
  records: number[]
}

/** What an erasure left of a request, and without whom. */
export interface RecordRest {
  seq: number
  ns: number[]
}

/** All that was found so far, and up to where; what was done is taken out. */
export interface ErasureFindings {
  positions: { REQUESTS: number, EMAILS: number, INBOUND: number }
  traces: Map<string, Trace>
  rests: Map<string, RecordRest[]>
  claims: Set<number>
  inbound: Set<number>
  /** Ids of mails that facts name, and `email.n` of every recipient there was: mails that came back know them by our
   *  tokens. */
  reports: Set<string>
  known: Set<string>
}

export function noFindings (): ErasureFindings {
  return {
    positions: { REQUESTS: 0, EMAILS: 0, INBOUND: 0 },
    traces: new Map(),
    rests: new Map(),
    claims: new Set(),
    inbound: new Set(),
    reports: new Set(),
    known: new Set()
  }
}

/** Reads the log from where it was last read, all of it at first, since what a view cannot show is there as well: facts
 *  whose request is gone, records, claims, mails that came back. Text is looked through first and parsed where it holds
 *  the address. Throws when NATS does not answer. */
export async function find (
  bus: Bus,
  tokens: Pick<Tokens, 'read'>,
  sought: Sought,
  found: ErasureFindings,
  signal: AbortSignal
): Promise<void> {
  const { positions, reports, known } = found
  const { account, id, address } = sought
  const knew = reports.size + known.size
  const requests = {
    stream: 'REQUESTS',
    filters: [`request.*.${account}`, `claim.${account}.*`],
    afterSeq: positions.REQUESTS,
    signal
  }
  positions.REQUESTS = await readOn(bus, requests, message => {
    const text = textOf(message)
    if (text.includes(ERASED) || holds(text, address)) noteRequest(factIn('REQUESTS', message), message, sought, found)
  })
  const facts = {
    stream: 'EMAILS',
    filters: [`email.*.${account}.>`, subjects.records, subjects.recordsReplay],
    afterSeq: positions.EMAILS,
    signal
  }
  positions.EMAILS = await readOn(bus, facts, message => {
    const text = textOf(message)
    if (text.includes(id) || holds(text, address)) noteFact(factIn('EMAILS', message), message, sought, found)
  })
  // Mails that were looked at may be about one that was not known then.
  const afterSeq = reports.size + known.size > knew ? 0 : positions.INBOUND
  positions.INBOUND = await readOn(
    bus,
    { stream: 'INBOUND', filters: ['inbound.>'], afterSeq, signal },
    async message => {
      const mail = envelopeIn(factIn('INBOUND', message) as InboundReceived | InboundReported)
      if (await isAbout(bus, tokens, mail, sought, found)) found.inbound.add(message.seq)
    }
  )
}

/** Resolves to the sequence it has read up to. */
async function readOn (
  bus: Bus,
  range: RangeOptions,
  each: (message: StoredMessage) => void | Promise<void>
): Promise<number> {
  let after = range.afterSeq
  for await (const messages of readRange(bus, range)) {
    for (const message of messages) {
      if (range.signal?.aborted === true) return after
      await each(message)
      after = message.seq
    }
  }
  return after
}

export function isNothing ({ traces, claims, inbound }: ErasureFindings): boolean {
  return traces.size + claims.size + inbound.size === 0
}

function textOf ({ data }: StoredMessage): string {
  return Buffer.from(data.buffer, data.byteOffset, data.length).toString()
}

function holds (text: string, address: string): boolean {
  return foldAddress(text).includes(address)
}

/** Neither deleted nor passed over: somebody must look at it. */
function factIn (stream: string, { data, seq }: StoredMessage): AnyFact {
  try {
    return decodeFact(data)
  } catch (error) {
    throw new Error(`message ${seq} of ${stream} may hold the address and cannot be read`, { cause: error })
  }
}

/** The trace of an email, begun when there is none. */
function traceOf ({ traces, known }: ErasureFindings, email: string, ns: readonly number[]): Trace {
  const trace = traces.get(email) ?? { email, ns: new Set(), requests: [], records: [] }
  traces.set(email, trace)
  for (const n of ns) {
    trace.ns.add(n)
    known.add(`${email}.${n}`)
  }
  return trace
}

/** The places of a folded address among the recipients of a request. */
export function placesOf (recipients: EmailRequested['data']['recipients'], address: string): number[] {
  return recipients.flatMap((
    recipient,
    n
  ) => (!isErased(recipient.address) && foldAddress(recipient.address) === address ? [n] : []))
}

function noteRequest (fact: AnyFact, { seq }: StoredMessage, { address }: Sought, found: ErasureFindings): void {
  if (fact.type === 'request.claimed' && withoutAddress(fact.data.answer.body, address) !== fact.data.answer.body) {
    found.claims.add(seq)
  }
  if (fact.type !== 'email.requested') return
  const { email, recipients } = fact.data
  const ns = placesOf(recipients, address)
  if (ns.length > 0) traceOf(found, email, ns).requests.push(seq)
  const gone = recipients.flatMap((recipient, n) => (isErased(recipient.address) ? [n] : []))
  if (gone.length > 0) found.rests.set(email, [...found.rests.get(email) ?? [], { seq, ns: gone }])
}

/** JSON with the placeholder for every string that is the address; the same value when none is. */
export function withoutAddress (value: unknown, address: string): unknown {
  if (typeof value === 'string') return foldAddress(value) === address ? ERASED : value
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, inner]) => [key, withoutAddress(inner, address)] as const)
  if (entries.every(([key, inner]) => inner === (value as Record<string, unknown>)[key])) return value
  return Array.isArray(value) ? entries.map(([, inner]) => inner) : Object.fromEntries(entries)
}

function noteFact (
  fact: AnyFact,
  { seq }: StoredMessage,
  { account, id, address }: Sought,
  found: ErasureFindings
): void {
  if (fact.account !== account) return
  if (fact.type === 'email.recorded') {
    const ns = placesOf(fact.data.recipients, address)
    if (ns.length > 0) traceOf(found, fact.data.email, ns).records.push(seq)
  } else if (fact.type === 'email.erased') {
    if (fact.data.erasure === id) noteEarlier(fact, found)
  } else if ('sequence' in fact.data && !isErased(fact.data.to) && foldAddress(fact.data.to) === address) {
    traceOf(found, fact.data.email, [fact.data.n])
    noteReport(fact, found)
  }
}

/** Done already, by a worker that died, maybe before it came to the mails. */
function noteEarlier ({ data: { email, n, past } }: EmailErased, found: ErasureFindings): void {
  found.known.add(`${email}.${n}`)
  for (const { fact } of past) noteReport(fact as AnyFact, found)
}

function noteReport ({ data }: AnyFact, { reports }: ErasureFindings): void {
  if ('report' in data && typeof data.report === 'string') reports.add(data.report)
}

interface InboundEnvelope {
  id: string
  texts: string[]
  /** Recipients of ours that Message-IDs name: `<email>.<n>`. */
  names: string[]
}

/** What came in, in every way its text can be read: a mail, or a relay's report. */
function envelopeIn (fact: InboundReceived | InboundReported): InboundEnvelope {
  if (fact.type === 'inbound.received') return mailIn(fact)
  const { inbound, address, diagnostic, messageIds, tokens } = fact.data
  const names = messageIds.map(id => id.split('@', 1)[0]!)
  return { id: inbound, texts: [address ?? '', diagnostic ?? '', ...messageIds, ...tokens], names }
}

function mailIn ({ data: { inbound, from, to, raw } }: InboundReceived): InboundEnvelope {
  const text = Buffer.from(raw, 'base64').toString()
  return { id: inbound, texts: [from, ...to, text, ...unwrapped(text)], names: [] }
}

/** Longer than any word of prose: what may be base64 (RFC 2045, 6.8). */
const BASE64 = /[A-Za-z0-9+/]{40,}(?:\r?\n[A-Za-z0-9+/]+)*={0,2}/g
const QUOTED = /=([0-9a-f]{2})/gi

/** Out of quoted-printable and base64 (RFC 2045, 6.7, 6.8), wherever either may be. */
function unwrapped (text: string): string[] {
  const joined = text.replaceAll(/=\r?\n/g, '')
  const quoted = Buffer.from(
    joined.replaceAll(QUOTED, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1'
  ).toString()
  return [joined, quoted, ...(text.match(BASE64) ?? []).map(block => Buffer.from(block, 'base64').toString())]
}

/** The address as mails and their senders write it: also with its domain in letters, as RFC 3461's xtext, and in a URL.
 */
function spellings (address: string): string[] {
  const domain = domainOf(address)
  const inLetters = address.slice(0, -domain.length) + foldAddress(domainToUnicode(domain))
  const xtext = address.replaceAll(/[+=]/g, character => `+${character.charCodeAt(0).toString(16)}`)
  const inUrl = [encodeURIComponent(address), address.replace('@', '%40')].map(foldAddress)
  return [...new Set([address, inLetters, xtext, ...inUrl])]
}

/** Takes a folded address out of texts, in whatever way it is written there; in `customer-ada@example.net.pdf`, too.
 *  That may be a longer address, but what is said to the person themselves rather loses too much than too little. */
export function cleanerOf (address: string): Clean {
  const patterns = spellings(address).map(spelling =>
    new RegExp(`(?<![\\p{L}\\p{N}])${escaped(spelling)}(?![\\p{L}\\p{N}])`, 'giu')
  )
  const clean = (text: string) => patterns.reduce((left, pattern) => left.replaceAll(pattern, ERASED), text)
  return text => {
    const folded = foldAddress(text)
    if (clean(folded) === folded) return text
    const left = clean(text.normalize('NFC'))
    // Some letters fold to what a pattern takes for others: rather the text in lower case than the address.
    return clean(foldAddress(left)) === foldAddress(left) ? left : clean(folded)
  }
}

/** Not as the end of a longer address, nor as its beginning. */
function asWord (address: string): RegExp {
  return new RegExp(`(?<![\\p{L}\\p{N}._+~-])${escaped(address)}(?![\\p{L}\\p{N}-]|\\.[\\p{L}\\p{N}])`, 'u')
}

function escaped (text: string): string {
  return text.replaceAll(/[\^$\\.*+?()[\]{}|/]/g, '\\$&')
}

const TOKEN = /(?<![0-9a-z])[0-9a-z]{54}(?![0-9a-z])/gi
const TOKENS_MAX = 20

/** A mail that a fact of the recipient names, that our own token says is about it, or that holds the address; unless it
 *  is about mail of another account. */
async function isAbout (
  bus: Bus,
  tokens: Pick<Tokens, 'read'>,
  mail: InboundEnvelope,
  { account, address }: Sought,
  { reports, known }: ErasureFindings
): Promise<boolean> {
  if (reports.has(mail.id) || mail.names.some(name => known.has(name))) return true
  const pointers = mail.texts.flatMap(text => text.match(TOKEN) ?? []).slice(0, TOKENS_MAX)
    .flatMap(token => tokens.read('return', token) ?? tokens.read('unsubscribe', token) ?? [])
  if (pointers.some(({ email, n }) => known.has(`${email}.${n}`))) return true
  const patterns = spellings(address).map(asWord)
  if (!mail.texts.map(foldAddress).some(text => patterns.some(pattern => pattern.test(text)))) return false
  if (pointers.length === 0) return true
  const owners = await Promise.all(
    pointers.map(async ({ email, n }) =>
      (await getFact(bus, 'EMAILS', { last_by_subj: subjects.recipientOfAny(email, n) }))?.fact.account ?? account
    )
  )
  return owners.includes(account)
}
