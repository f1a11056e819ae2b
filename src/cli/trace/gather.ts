import { deliveriesAbout, type DeliveryRecord } from '#projections/deliveries/queries.ts'
import { findAsked, knownAt, type AskedRow, type Stored } from '#projections/emails/as-of.ts'
import type { EmailRecord } from '#projections/emails/records.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { askedInLog, emailBy, factsOf } from '#src/actions/email-past.ts'
import { timestamp } from '#src/base/clock.ts'
import { Complaint } from '#src/base/errors.ts'
import { isEmailId } from '#src/servers/api/params.ts'
import type { Bus } from '#src/nats/connect.ts'
import { ask } from '#src/postgres/query.ts'
import { withServices } from '../open-services.ts'
import { withPostgres } from '../webhooks/options.ts'

/** An email with all that is known of it. */
export interface Traced {
  record: EmailRecord
  /** Its recipients' facts, in the order of the log. */
  facts: Stored[]
  /** Oldest first; null when PostgreSQL, which has them, cannot be reached. */
  deliveries: DeliveryRecord[] | null
  /** Where a delivery goes, if its endpoint still exists. */
  urlOf(delivery: DeliveryRecord): string
  /** Why something is missing; null = nothing is. */
  trouble: string | null
}

/** An email of 50 recipients whose events go to 20 endpoints has fewer. */
const DELIVERIES_MAX = 2000

/** What was known of an email at `atMs` (Unix), whosever it is: its facts from the log, callbacks from the view. Throws
 *  a Complaint where there is none. */
export async function gather (id: string, atMs: number): Promise<Traced> {
  if (!isEmailId(id)) throw nothing(id)
  const viewed = await queryPostgres(id)
  return await withServices(async ({ factLog: { bus }, directory }) => {
    const { asked, facts } = await readLog(bus, id, viewed)
    const record = await emailBy(bus, asked, facts, atMs)
    if (record === null) throw missing(asked, atMs)
    const found = viewed instanceof Complaint
      ? { deliveries: null, trouble: viewed.message }
      : { deliveries: deliveriesAt(viewed, atMs), trouble: null }
    return { record, facts: knownAt(facts, atMs), ...found, urlOf: delivery => urlOf(delivery, directory.now.webhooks) }
  })
}

interface Viewed {
  asked: AskedRow | null
  deliveries: DeliveryRecord[]
}

/** What PostgreSQL has, or why it cannot be asked: the log has the rest. */
async function queryPostgres (id: string): Promise<Viewed | Complaint> {
  return await withPostgres(async pool => {
    const asked = await ask(pool, findAsked({ id }))
    return {
      asked,
      deliveries: asked === null
        ? []
        : await ask(pool, deliveriesAbout({ account: asked.account, emails: [id], limit: DELIVERIES_MAX }))
    }
  }).catch(error => {
    if (error instanceof Complaint) return error
    throw error
  })
}

async function readLog (bus: Bus, id: string, viewed: Viewed | Complaint) {
  const known = viewed instanceof Complaint ? null : viewed.asked
  const facts = await factsOf(bus, { account: known?.account ?? '*', id })
  const asked = known ?? await askedInLog(bus, id, facts)
  if (asked !== null) return { asked, facts }
  throw viewed instanceof Complaint
    ? new Complaint(`The log alone does not show an email ${id}. ${viewed.message}`)
    : nothing(id)
}

function nothing (id: string): Complaint {
  return new Complaint(`There is no email ${id}.`)
}

function missing ({ id, created_at: at }: AskedRow, atMs: number): Complaint {
  if (at.getTime() <= atMs) return new Complaint(`The request of ${id} is no longer stored.`)
  return new Complaint(`There was no email ${id} yet at ${timestamp(atMs)}: it was requested at ${at.toISOString()}.`)
}

/** As they were then, by their own times; without those that were not requested yet. */
function deliveriesAt ({ deliveries }: Viewed, atMs: number): DeliveryRecord[] {
  return deliveries.filter(({ requested_at: at }) => at.getTime() <= atMs).map(delivery => deliveryAt(delivery, atMs))
}

function deliveryAt (delivery: DeliveryRecord, atMs: number): DeliveryRecord {
  const tries = delivery.tries.filter(({ at }) => at.getTime() <= atMs)
  const isSame = tries.length === delivery.tries.length &&
    (delivery.ended_at === null || delivery.ended_at.getTime() <= atMs)
  return isSame
    ? delivery
    : {
      ...delivery,
      tries,
      state: tries.length === 0 ? 'pending' : 'retrying',
      reason: null,
      next_attempt_at: null,
      ended_at: null
    }
}

function urlOf ({ webhook, tries }: DeliveryRecord, webhooks: ReadonlyMap<string, WebhookEntry>): string {
  return webhooks.get(webhook)?.url ?? tries.at(-1)?.url ?? webhook
}
