import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { domainOf, parseAddress } from '#streams/address.ts'
import type { AlertFact, AlertState } from '#streams/alert/facts.ts'
import { Refusal, type Unstamped } from '#streams/define.ts'
import { domainKey } from '#streams/directory.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { FIXED_KEY, SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { newRenderBudget } from '#src/content/mustache.ts'
import type { Bus } from '#src/nats/connect.ts'
import { Conflict } from '#src/nats/errors.ts'
import { readPages } from '#src/nats/range.ts'
import { decodeStored } from '#src/nats/message.ts'
import type { LiveDirectory } from './directory.ts'
import { acceptEmails, prepareEmail, type EmailDraft } from './email.ts'
import { stamp, type FactLog } from './fact-log.ts'
import type { Services } from './services.ts'

const CORRELATION = 'alerts'
const PAGE = { max: () => 500, bytesMax: 1024 * 1024 }

/** An alert as the log has it, and its last sequence there. */
export interface RecordedAlert {
  state: AlertState
  seq: number
}

/** The id of all alerts about one thing. */
export function alertIdOf (thing: string): string {
  return `alr_${sha256Hex(thing).slice(0, 32)}`
}

/** What the log says of alerts; it reads on where it has stopped. Holds one entry for each thing that was ever
 *  alerted about. */
export class AlertLog {
  readonly alerts = new Map<string, RecordedAlert>()
  private readonly bus: Bus
  private afterSeq = 0

  constructor (bus: Bus) {
    this.bus = bus
  }

  /** Throws when NATS does not answer. */
  async catchUp (): Promise<void> {
    const from = { filter: subjects.alerts, afterSeq: this.afterSeq }
    for await (const page of readPages(this.bus, 'CONTROL', from, PAGE)) {
      for (const message of page) {
        const { fact, seq } = decodeStored(message)
        this.take((fact as AlertFact).data, seq)
      }
    }
  }

  take (state: AlertState, seq: number): void {
    const known = this.alerts.get(state.alert)
    if (known === undefined || known.seq < seq) this.alerts.set(state.alert, { state, seq })
    this.afterSeq = Math.max(this.afterSeq, seq)
  }
}

/** Records what was decided of an alert, if nothing has happened to it since. Resolves to what it is now; null when
 *  another process was first. Throws LogUnavailable. */
export async function recordAlert (
  { append, clock }: Pick<FactLog, 'append' | 'clock'>,
  { type, data }: Unstamped & { data: AlertState },
  expectedSeq: number,
  id?: string
): Promise<RecordedAlert | null> {
  const cause = { account: FIRST_ACCOUNT, correlation: CORRELATION, causation: null }
  try {
    const [seq] = await append([{ fact: stamp(type, cause, data, clock.nowMs(), id), expectedSeq }])
    return { state: data, seq: seq! }
  } catch (error) {
    if (error instanceof Conflict) return null
    throw error
  }
}

/** A mail about an alert. */
export interface AlertMail {
  from: string
  to: string[]
  subject: string
  text: string
  /** What it tells of: two mails of one notice are one. */
  notice: string
}

/** Sends it as an email of the first account; nothing when that was done before. Refuses what keeps such a mail from
 *  being sent. Throws LogUnavailable, or when NATS does not answer. */
export async function sendAlertMail (services: Services, mail: AlertMail): Promise<Refusal | null> {
  const domain = alertDomain(services, mail.from)
  if (domain instanceof Refusal) return domain
  const principal = { id: FIXED_KEY, account: FIRST_ACCOUNT, test: false, defaults: NO_DEFAULTS }
  const context = { principal, correlation: CORRELATION, budget: newRenderBudget() }
  const prepared = await prepareEmail(services, context, draftOf(mail), domain)
  if (prepared instanceof Refusal) return prepared
  const hash = sha256Hex(`alert\n${mail.notice}`)
  const answer = { status: 202, location: null, body: null }
  try {
    await acceptEmails(services, { account: FIRST_ACCOUNT, correlation: CORRELATION }, [prepared], {
      key: { hash, bodyHash: hash },
      answer
    })
  } catch (error) {
    // It was accepted before, by us or by another process.
    if (!(error instanceof Conflict)) throw error
  }
  return null
}

/** Refuses a sender that the first account may not have. */
export function alertDomain ({ directory }: { directory: Pick<LiveDirectory, 'now'> }, from: string) {
  const address = parseAddress(from)
  if (address === null) {
    return new Refusal('invalid_address', `JETPOST_ALERT_FROM must be a mail address: ${from} is not.`)
  }
  const name = domainOf(address)
  const domain = directory.now.domains.get(domainKey(FIRST_ACCOUNT, name))
  if (name === SANDBOX_DOMAIN) return 'sandbox' as const
  if (domain !== undefined) return domain
  return new Refusal(
    'domain_not_linked',
    `JETPOST_ALERT_FROM must be on a domain of the first account: ${name} is not.`
  )
}

function draftOf ({ from, to, subject, text }: AlertMail): EmailDraft {
  return {
    from: { address: from, name: 'Jetpost' },
    recipients: to.map(address => ({ address, name: null, kind: 'to' })),
    replyTo: [],
    headers: [],
    tags: ['alert'],
    metadata: {},
    onDoubt: 'retry',
    subject,
    html: null,
    text,
    files: [],
    alternatives: [],
    template: null,
    scheduledMs: null,
    expiresInS: null,
    options: { opens: false, clicks: false, unsubscribe: false }
  }
}
