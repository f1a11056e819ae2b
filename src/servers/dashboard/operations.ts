/** What the page Operations shows and does, whoever brings it: the context it looks into are none of the dashboard's.
 *  Whatever is looked at is asked with a deadline, and once for all who look within a second. */
export interface Operations {
  process: ProcessReport
  /** The parts of this process, as /readyz has them. */
  parts(): Promise<PartReport[]>
  streams(): Promise<Told<StreamReport[]>>
  consumers(): Promise<Told<ConsumerReport[]>>
  projections(): Promise<Told<ProjectionReport[]>>
  /** Begins to make a view anew, beside the one that is read. A sentence when it cannot be; null = it has begun. */
  rebuild(projection: string): Promise<string | null>
  /** Ends the one that runs in this process: what was done by then stays for the next. False = none does. */
  endRebuild(projection: string): boolean
  /** The newest of each view that has some. */
  deadLetters(): Promise<Told<DeadLetterReport[]>>
  /** Tries the dead-lettered facts of a view once more. How many stay dead-lettered; null = it takes longer, and goes
   *  on. Throws Untold. */
  retryDeadLetters(projection: string): Promise<number | null>
  reputation(): Promise<Told<FareReport[]>>
  /** Mail that came in, the newest first: before a sequence of INBOUND, and from how many of them `older` begins; null
   *  = from the end. */
  mail(options: { before: number | null, onlyToPeople: boolean }): Promise<Told<MailPage>>
  /** One of them with its source; null = it is gone. Throws what `isUnanswered` knows. */
  mailAt(seq: number): Promise<{ about: MailReport, raw: Buffer } | null>
}

/** What could be learnt, and in a sentence each what could not, and why. */
export interface Told<T> {
  value: T
  troubles: string[]
}

/** Somebody who would have to be asked does not answer; the message is a sentence for the operator. */
export class Untold extends Error {}

export interface ProcessReport {
  host: string
  roles: string[]
  version: string
  sinceMs: number
}

export interface PartReport {
  name: string
  reason: string | null
}

export interface StreamReport {
  name: string
  messages: number
  bytes: number
  /** RFC 3339; null = there is none. */
  firstAt: string | null
  /** How long messages are kept, 0 = for ever. */
  ageMsMax: number
  isInMemory: boolean
  replicas: number
  /** Servers whose copy is behind or away. */
  replicasBehind: string[]
}

/** A durable consumer, or the parts of one that is split. */
export interface ConsumerReport {
  name: string
  stream: string
  pending: number
  ackPending: number
  ackPendingMax: number
  redelivered: number
  /** Requests of workers that wait for something to do. */
  waiting: number
}

export interface ProjectionReport {
  name: string
  version: number
  /** null = not known just now. */
  lag: { facts: number, seconds: number } | null
  /** null = not known just now. */
  view: { deadLetters: number, bytes: number, madeAt: string } | null
  /** Another process makes it anew at this moment, or this one on its own. */
  isMadeElsewhere: boolean
  /** Messages in its streams: no more facts than that are read for it; null = not known just now. */
  factsMax: number | null
  /** What was last asked for here, while it runs and after. */
  rebuild: RebuildReport | null
}

export interface RebuildReport {
  state: 'running' | 'done' | 'failed' | 'stopped'
  stage: 'beginning' | 'facts' | 'indexes' | 'catching up'
  done: number
  total: number
  /** Facts a second; 0 = not known yet. */
  perS: number
  /** Seconds; null = not known. */
  leftS: number | null
  /** Why it failed. */
  reason: string | null
  /** What was read, in how many seconds; once it is done. */
  facts: number
  seconds: number
  endedAt: string | null
}

export interface DeadLetterReport {
  projection: string
  count: number
  facts: Array<{ stream: string, seq: number, subject: string, reason: string, at: string }>
}

export interface RateReport {
  /** Mails with an end, and how many of them came back. */
  settled: number
  bounced: number
  bounceRate: number | null
  delivered: number
  complained: number
  complaintRate: number | null
}

export interface FareReport {
  account: string
  domain: string
  day: RateReport
  week: RateReport
}

export interface MailReport {
  seq: number
  id: string
  /** Of the envelope; '' = a bounce. */
  from: string
  to: string[]
  /** As it stands in the header; null = there is none. */
  subject: string | null
  remote: string
  sizeBytes: number
  at: string
}

export interface MailPage {
  mails: MailReport[]
  /** Where to go on; null = that was all. */
  older: number | null
}
