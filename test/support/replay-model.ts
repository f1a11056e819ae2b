import type { AnyFact } from '#streams/catalog.ts'
import type { DeliveryAttempted, DeliveryFailed, DeliveryMoved, DeliveryRequested } from '#streams/delivery/facts.ts'
import type { EmailRequested, EngagementFact, RecipientFact } from '#streams/email/facts.ts'
import { evolve, newRecipient } from '#streams/email/state.ts'
import { suppressionOf, type SuppressionFact } from '#streams/suppression/decide.ts'
import type { TemplateDeleted, TemplateVersioned } from '#streams/template/facts.ts'
import type { Bus } from '#src/nats/connect.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readPages } from '#src/nats/range.ts'
import type { Pool } from '#src/postgres/pool.ts'

/** One line a thing: what is known of it, by the log or by the tables. */
export type Lines = string[]

/** All facts of a stream, from its beginning. */
async function factsOf (bus: Bus, stream: string): Promise<AnyFact[]> {
  const facts: AnyFact[] = []
  const limits = { max: () => 500, bytesMax: 2 ** 20 }
  for await (const messages of readPages(bus, stream, { filter: null, afterSeq: 0 }, limits)) {
    facts.push(...messages.map(message => decodeMessage(message).fact))
  }
  return facts
}

/** What the log says, folded by the streams' own rules and by nothing that makes rows. */
export async function foldLog (bus: Bus): Promise<Lines> {
  const [requests, emails, control, webhooks] = await Promise.all(
    ['REQUESTS', 'EMAILS', 'CONTROL', 'WEBHOOKS'].map(async stream => await factsOf(bus, stream))
  )
  return [
    ...recipientLines(requests!.filter(fact => fact.type === 'email.requested'), emails!),
    ...suppressionLines(
      control!.filter(fact => fact.type === 'suppression.added' || fact.type === 'suppression.removed')
    ),
    ...templateLines(control!.filter(fact => fact.type === 'template.versioned' || fact.type === 'template.deleted')),
    ...deliveryLines(webhooks!.filter(isStep))
  ].sort()
}

type Heard = RecipientFact | EngagementFact
const MARKS: ReadonlySet<string> = new Set(['email.opened', 'email.clicked', 'email.complained', 'email.unsubscribed'])

function recipientLines (requests: EmailRequested[], facts: AnyFact[]): Lines {
  const heard = Map.groupBy(
    facts.filter((fact): fact is Heard => 'sequence' in fact.data),
    ({ data }) => `${data.email} ${data.n}`
  )
  return requests.flatMap(({ data: { email, recipients, scheduledAt } }) =>
    recipients.map((_recipient, n) => {
      const own = heard.get(`${email} ${n}`) ?? []
      const { status, attempts, nextAttemptAt } = own.filter((fact): fact is RecipientFact => !MARKS.has(fact.type))
        .reduce(evolve, newRecipient(scheduledAt))
      const first = (type: string) => own.filter(fact => fact.type === type).map(({ time }) => time).sort()[0] ?? null
      return lineOf(
        'recipient',
        email,
        n,
        status,
        attempts,
        nextAttemptAt,
        own.length,
        first('email.opened'),
        first('email.clicked'),
        first('email.complained')
      )
    })
  )
}

function suppressionLines (facts: SuppressionFact[]): Lines {
  const last = new Map(facts.map(fact => [`${fact.account} ${fact.data.hash}`, fact]))
  return [...last].map(([key, fact]) =>
    lineOf('suppression', key, suppressionOf(fact).standing.map(({ reason }) => reason).join())
  )
}

function templateLines (facts: Array<TemplateVersioned | TemplateDeleted>): Lines {
  return [...Map.groupBy(facts, ({ data }) => data.template)].map(([id, own]) => {
    const last = own.at(-1)!
    return lineOf(
      'template',
      id,
      last.type === 'template.deleted' ? null : last.data.version,
      own.filter(({ type }) => type === 'template.versioned').length
    )
  })
}

type Step = DeliveryRequested | DeliveryAttempted | DeliveryMoved | DeliveryFailed

function isStep (fact: AnyFact): fact is Step {
  return fact.type.startsWith('delivery.')
}

/** By its last run; in it, what has arrived has arrived. */
function deliveryLines (steps: Step[]): Lines {
  return [...Map.groupBy(steps, ({ data }) => data.delivery)].map(([id, own]) => {
    const run = own.map(({ data }) => data.replay ?? '').sort().at(-1)
    const states = own.filter(({ data }) => (data.replay ?? '') === run).map(stateOf)
    return lineOf(
      'delivery',
      id,
      states.includes('delivered') ? 'delivered' : states.at(-1)!,
      own.filter(({ type }) => type === 'delivery.attempted').length
    )
  })
}

function stateOf (step: Step): string {
  switch (step.type) {
    case 'delivery.requested':
      return 'pending'
    case 'delivery.moved':
      return 'retrying'
    case 'delivery.attempted':
      return step.data.result
    case 'delivery.failed':
      return 'failed'
  }
}

function lineOf (...values: Array<string | number | null>): string {
  return values.map(value => String(value)).join(' | ')
}

/** What the tables say of the same things. */
export async function readTables (pool: Pool): Promise<Lines> {
  const read = async (text: string) =>
    (await pool.query<Record<string, string | number | Date | null>>(text)).rows.map(row =>
      lineOf(...Object.values(row).map(plain))
    )
  return (await Promise.all([
    read(
      `select 'recipient' as kind, email, n, status, attempts, next_attempt_at, 
        (select count(*) from timeline where timeline.email = recipients.email and timeline.n = recipients.n) as facts,
      opened_at, clicked_at, complained_at from recipients`
    ),
    read(
      "select 'suppression' as kind, account || ' ' || hash as id, array_to_string(array(select " +
        "jsonb_array_elements(standing) ->> 'reason'), ',') as why from suppressions"
    ),
    read(
      "select 'template' as kind, id, version, (select count(*) from template_versions where " +
        'template = templates.id) as versions from templates'
    ),
    read(
      "select 'delivery' as kind, id, state, (select count(*) from delivery_attempts where delivery " +
        '= deliveries.id) as requests from deliveries'
    )
  ])).flat().sort()
}

function plain (value: string | number | Date | null): string | number | null {
  return value instanceof Date ? value.toISOString() : value
}

/** Every row of every view, by its table. */
export async function allViews (pool: Pool): Promise<Record<string, string[]>> {
  const { rows } = await pool.query<{ name: string }>(
    `select table_schema || '.' || table_name as name from information_schema.tables
    where table_schema ~ '^jetpost_[a-z]+_[0-9]+$' and table_name not in ('metadata', 'checkpoints') order by 1`
  )
  const views: Record<string, string[]> = {}
  for (const { name } of rows) {
    const found = await pool.query<{ row: string }>(`select to_jsonb(each)::text as row from ${name} each`)
    views[name] = found.rows.map(({ row }) => row).sort()
  }
  return views
}
