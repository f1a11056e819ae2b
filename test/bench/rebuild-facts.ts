import { randomUUID } from 'node:crypto'
import { headers } from 'nats'
import { encodeFact, type AnyFact } from '#streams/catalog.ts'
import type { FactOf, FactType } from '#streams/define.ts'
import {
  EmailAttempted,
  EmailBounced,
  EmailDeferred,
  EmailDelivered,
  EmailOpened,
  EmailRecorded,
  EmailRequested
} from '#streams/email/facts.ts'
import { placeOf } from '#streams/place.ts'
import type { Static, TSchema } from '@sinclair/typebox'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { newId } from '#src/base/id.ts'
import type { Bus } from '#src/nats/connect.ts'

/** The operator's own, which sees every page of the dashboard. */
export const ACCOUNT = FIRST_ACCOUNT
/** As many as the server takes in one atomic batch. */
const BATCH = 1000
const ANSWER_MS = 30_000
/** Mail of the last weeks. */
const SPAN_MS = 20 * 86_400_000

/** A request, and what is told of it: its record, and the facts of its recipient. Most are delivered at once, one in
 *  twenty at the second try, one in fifty never, one in four is opened. */
export interface Mail {
  request: AnyFact
  record(seq: number): AnyFact
  outcomes(seq: number): AnyFact[]
}

/** Mail number `i`, asked for at `atMs`. */
export function mailOf (i: number, atMs: number): Mail {
  const email = newId('em', atMs)
  const to = i % 20 === 0 ? 'ops@example.net' : `ada.lovelace${(i * 7919) % 100_000}@example.net`
  const asked = askedOf(i, email, to, atMs)
  const common = (request: number, sequence: number) => ({ email, n: 0, request, to, sequence })
  const of = <Name extends string, Schema extends TSchema>(
    type: FactType<Name, Schema>,
    afterMs: number,
    data: Static<Schema>
  ) => factOf(type, atMs + afterMs, data)
  const attempt = (request: number, sequence: number, n: number, afterMs: number) =>
    of(EmailAttempted, afterMs, {
      ...common(request, sequence),
      attempt: n,
      worker: 'w_01m7ysevjmwmdcr41jq5rymhkp',
      leaseUntil: timeOf(atMs + afterMs + 900_000),
      messageId: `<${email}@mail.example.com>`,
      date: timeOf(atMs),
      renderer: '1',
      digest: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
      due: n > 1
    })
  const event = (type: string, sequence: number, afterMs: number) => ({
    event: JSON.stringify({
      id: newId('ev', atMs + afterMs),
      type,
      created_at: timeOf(atMs + afterMs),
      data: {
        email_id: email,
        from: asked.from.address,
        to,
        subject: asked.subject,
        tags: asked.tags,
        metadata: asked.metadata,
        message_id: `<${email}@mail.example.com>`,
        sequence,
        template_id: null
      }
    })
  })
  const transaction = {
    host: 'mx1.example.net',
    tls: { version: 'TLSv1.3', cipher: 'TLS_AES_256_GCM_SHA384', verified: true },
    via: 'mx' as const,
    ms: 212
  }
  const deferral = (request: number) =>
    of(EmailDeferred, 300, {
      ...common(request, 2),
      ...transaction,
      attempt: 1,
      stage: 'rcpt',
      class: 'greylisted',
      error: null,
      first: true,
      reply: { code: 451, enhanced: '4.7.1', text: '451 4.7.1 Greylisted, please come back later' },
      nextAttemptAt: timeOf(atMs + 300_000),
      ...event('email.bounced', 2, 300)
    })
  const end = (request: number, sequence: number, n: number, afterMs: number) =>
    i % 50 === 7
      ? of(EmailBounced, afterMs, {
        ...common(request, sequence),
        ...transaction,
        attempt: n,
        stage: 'rcpt',
        status: '5.1.1',
        error: null,
        class: 'userunknown',
        report: null,
        reply: { code: 550, enhanced: '5.1.1', text: '550 5.1.1 There is no such user here' },
        ...event('email.bounced', sequence, afterMs)
      })
      : of(EmailDelivered, afterMs, {
        ...common(request, sequence),
        ...transaction,
        attempt: n,
        reply: { code: 250, enhanced: '2.0.0', text: '250 2.0.0 Ok: queued as 4b1f2c3d4e5f' },
        ...event('email.delivered', sequence, afterMs)
      })
  const opening = (request: number) =>
    of(EmailOpened, 3_600_000, {
      ...common(request, 3),
      machine: false,
      first: true,
      ...event('email.opened', 3, 3_600_000)
    })
  return {
    request: of(EmailRequested, 0, { ...asked, content: { html: `<p>${asked.subject}</p>`, text: null, files: [] } }),
    record: request => of(EmailRecorded, 400, { ...asked, request, requestedAt: timeOf(atMs) }),
    outcomes: request =>
      i % 20 === 3
        ? [attempt(request, 1, 1, 40), deferral(request), attempt(request, 3, 2, 300_040), end(request, 4, 2, 300_250)]
        : [
          attempt(request, 1, 1, 40),
          end(request, 2, 1, 250),
          ...(i % 4 === 0 && i % 50 !== 7 ? [opening(request)] : [])
        ]
  }
}

function askedOf (
  i: number,
  email: string,
  to: string,
  atMs: number
): Omit<Static<typeof EmailRequested.data>, 'content'> {
  return {
    email,
    key: 'key_01m7yse7ke2esfck840wxx2ekh',
    test: false,
    from: { address: `news@shop${i % 4}.example`, name: 'The Shop' },
    recipients: [{ address: to, name: 'Ada Lovelace', kind: 'to' }],
    replyTo: [],
    subject: `Number ${i} of your orders is on its way`,
    headers: [],
    attachments: [],
    template: null,
    track: { opens: true, clicks: true },
    unsubscribe: true,
    tags: [`tag${i % 5}`],
    metadata: { order: i, plan: i % 3 === 0 ? 'pro' : 'free' },
    scheduledAt: null,
    expiresAt: timeOf(atMs + 259_200_000),
    onDoubt: 'retry'
  }
}

const timeOf = (ms: number): string => new Date(ms).toISOString()

function factOf<Name extends string, Schema extends TSchema> (
  type: FactType<Name, Schema>,
  atMs: number,
  data: Static<Schema>
): FactOf<FactType<Name, Schema>> {
  return {
    id: newId('ev', atMs),
    type: type.name,
    version: type.version,
    time: timeOf(atMs),
    account: ACCOUNT,
    causation: null,
    correlation: 'req_01m7ysevjmwmdcr41jq5rymhkp',
    data
  } as FactOf<FactType<Name, Schema>>
}

/** Writes so many emails' facts straight into fresh streams, in the order of time; resolves to how many facts lie in
 *  EMAILS. What happens late (a second try, an opening) comes some thousand emails later. */
export async function loadMail (bus: Bus, emails: number): Promise<number> {
  const beginMs = Date.now() - SPAN_MS
  const later = new Map<number, AnyFact[]>()
  const lines = { requests: createLine(bus), emails: createLine(bus) }
  let count = 0
  const toEmails = async (facts: AnyFact[]): Promise<void> => {
    count += facts.length
    for (const fact of facts) await lines.emails.add(fact)
  }
  for (let from = 0; from < emails; from += BATCH) {
    const mails = Array.from(
      { length: Math.min(BATCH, emails - from) },
      (_, k) => mailOf(from + k, beginMs + Math.floor((from + k) * SPAN_MS / emails))
    )
    for (const { request } of mails) await lines.requests.add(request)
    for (const [k, mail] of mails.entries()) {
      const [first, ...others] = mail.outcomes(from + k + 1)
      const soon = others.splice(0, 1)
      await toEmails([first!, ...soon])
      if (others.length > 0) later.set(from + 5 * BATCH, [...later.get(from + 5 * BATCH) ?? [], ...others])
    }
    await toEmails(mails.map((mail, k) => mail.record(from + k + 1)))
    await toEmails(later.get(from) ?? [])
    later.delete(from)
  }
  for (const facts of later.values()) await toEmails(facts)
  await Promise.all([lines.requests.end(), lines.emails.end()])
  return count
}

/** Gathers atomic batches, one on its way while the next one is made. */
function createLine (bus: Bus): { add(fact: AnyFact): Promise<void>, end(): Promise<void> } {
  let gathered: AnyFact[] = []
  let flying: Promise<void> = Promise.resolve()
  const flush = async (): Promise<void> => {
    const facts = gathered
    gathered = []
    await flying
    flying = publishBatch(bus, facts)
    flying.catch(() => {})
  }
  return {
    async add (fact) {
      gathered.push(fact)
      if (gathered.length === BATCH) await flush()
    },
    async end () {
      if (gathered.length > 0) await flush()
      await flying
    }
  }
}

async function publishBatch (bus: Bus, facts: AnyFact[]): Promise<void> {
  const id = randomUUID()
  for (const [i, fact] of facts.entries()) {
    const { subject } = placeOf(fact)
    const head = headers()
    head.set('Nats-Batch-Id', id)
    head.set('Nats-Batch-Sequence', String(i + 1))
    if (i < facts.length - 1) {
      bus.nc.publish(subject, encodeFact(fact), { headers: head })
      continue
    }
    head.set('Nats-Batch-Commit', '1')
    const answer = (await bus.nc.request(subject, encodeFact(fact), { headers: head, timeout: ANSWER_MS })).json<
      { error?: { description: string } }
    >()
    if (answer.error !== undefined) throw new Error(answer.error.description)
  }
}
