import { DELIVERY_STATES } from '#projections/deliveries/project.ts'
import {
  getDelivery,
  listDeliveries as deliveriesPage,
  parsePlace,
  type DeliveryAttempt,
  type DeliveryFilters,
  type DeliveryPage,
  type DeliverySummary
} from '#projections/deliveries/queries.ts'
import type { PageCursor } from '#projections/cursor.ts'
import { ERROR_KINDS } from '#streams/delivery/facts.ts'
import { readBody } from '#src/actions/delivery-body.ts'
import { findDelivery } from '#src/actions/delivery-view.ts'
import { replayDelivery } from '#src/actions/replay.ts'
import type { Services } from '#src/actions/services.ts'
import { timestamp } from '#src/base/clock.ts'
import { Complaint } from '#src/base/errors.ts'
import { DELIVERY_WAIT_WORDS, waitOf, type DeliveryWait } from '#src/operations/delivery-wait.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { usageError } from '../command.ts'
import { granted } from '../open-services.ts'
import { momentMs } from '../since.ts'
import { print, printFields } from '../table.ts'
import { durationText, oneLine } from '../text.ts'
import { withAsker, withPostgres, type WebhookValues } from './options.ts'

const LIMIT_MAX = 1000

/** `deliveries [<webhook>]`: the newest first. */
export async function listDeliveries (webhook: string | undefined, values: WebhookValues): Promise<void> {
  const { account, json } = values
  const limit = /^\d{1,4}$/.test(values.limit) ? Number(values.limit) : 0
  if (limit < 1 || limit > LIMIT_MAX) throw usageError(`--limit takes a whole number, 1 to ${LIMIT_MAX}.`)
  const [filters, cursor] = [filtersOf(webhook, values), placeIn(values.cursor)]
  const page = await withPostgres(async pool => {
    const found = await ask(pool, deliveriesPage({ account, filters, limit, cursor }))
    if (found.data.length === 0) await checkExists(pool, account, webhook)
    // Only where a delivery may wait for its endpoint are the endpoints asked.
    const data = found.data.some(({ state }) => state === 'pending')
      ? await withAsker(account, async services => found.data.map(delivery => shownBy(services, delivery)))
      : found.data.map(delivery => ({ ...delivery, waits: null }))
    return { ...found, data }
  })
  printPage(page, webhook === undefined, json)
}

/** A delivery, and what it waits for. */
type Shown<T extends DeliverySummary = DeliverySummary> = T & { waits: DeliveryWait | null }

function shownBy<T extends DeliverySummary> (
  { directory, factLog: { clock } }: Pick<Services, 'directory' | 'factLog'>,
  delivery: T
): Shown<T> {
  const webhook = directory.now.webhooks.get(delivery.webhook) ?? null
  return { ...delivery, waits: waitOf(delivery, webhook, clock.nowMs()) }
}

function filtersOf (
  webhook: string | undefined,
  { state, event, email, error, since, until }: WebhookValues
): DeliveryFilters {
  return {
    webhook,
    state: oneOf(DELIVERY_STATES, state, 'state'),
    event,
    email,
    errorKind: oneOf(ERROR_KINDS, error, 'error'),
    since: since === undefined ? undefined : timestamp(momentMs('since', since)),
    until: until === undefined ? undefined : timestamp(momentMs('until', until))
  }
}

function oneOf<T extends string> (names: readonly T[], text: string | undefined, what: string): T | undefined {
  const known = names.find(name => name === text)
  if (text !== undefined && known === undefined) {
    throw usageError(`There is no ${what} ${text}: the ${what}s are ${names.join(', ')}.`)
  }
  return known
}

function placeIn (cursor: string | undefined): PageCursor | null {
  const place = cursor === undefined ? null : parsePlace(cursor)
  if (cursor !== undefined && place === null) {
    throw usageError('--cursor must be the one that the last list ended with.')
  }
  return place
}

/** Throws a Complaint where there is nothing to find: no such account, or no such endpoint and no delivery of a deleted
 *  one. */
async function checkExists (pool: Pool, account: string, webhook: string | undefined): Promise<void> {
  const isThere = await withAsker(
    account,
    async ({ directory }) => webhook === undefined || directory.now.webhooks.get(webhook)?.account === account
  )
  if (isThere) return
  const { data } = await ask(pool, deliveriesPage({ account, filters: { webhook }, limit: 1, cursor: null }))
  if (data.length === 0) throw new Complaint(`There is no webhook ${webhook}.`)
}

/** With the endpoint of each where the list may be of several. */
function printPage (page: Omit<DeliveryPage, 'data'> & { data: Shown[] }, ofSeveral: boolean, json: boolean): void {
  const { data, next_cursor: next } = page
  if (json) return console.log(JSON.stringify({ ...page, data: data.map(answerOf) }, null, 2))
  print(
    data.map(delivery => (ofSeveral ? { ...rowOf(delivery), webhook: delivery.webhook } : rowOf(delivery))),
    false
  )
  if (next !== null) console.log(`\nThe next page: --cursor ${next}`)
}

/** `delivery <id>`: every request made for it, and its body. */
export async function showDelivery (id: string, { account, json }: WebhookValues): Promise<void> {
  const [record, body] = await withPostgres(async pool => {
    const found = await ask(pool, getDelivery({ account, id }))
    if (found === null) throw new Complaint(`There is no delivery ${id}.`)
    return await withAsker(
      account,
      async services => [shownBy(services, found), await bodyAt(services, pool, account, id)] as const
    )
  })
  if (json) return print([{ ...answerOf(record), requests: record.tries.map(tryAnswer), body }], true)
  printFields(rowOf(record))
  for (const each of record.tries) printTry(each)
  console.log(`\nbody\n  ${body === null ? 'is no longer stored' : oneLine(body)}`)
}

/** The bytes of its requests, as text; null when the log no longer has them. */
async function bodyAt (
  { factLog: { bus } }: Pick<Services, 'factLog'>,
  pool: Pool,
  account: string,
  id: string
): Promise<string | null> {
  const seq = await findDelivery(pool)(account, id)
  return seq === null ? null : await readBody(bus, seq)
}

/** `resend <id>`. */
export async function resend (id: string, { account, json }: WebhookValues): Promise<void> {
  const replayed = await withPostgres(async pool =>
    await withAsker(
      account,
      async (services, asker) => granted(await replayDelivery(services, asker, id, findDelivery(pool)))
    )
  )
  print([{ id: replayed.delivery, webhook: replayed.webhook, replay: replayed.replay }], json)
}

const NO_REQUEST = { status: null, error: null, error_kind: null, duration_ms: null }

function answerOf (delivery: Shown) {
  const { id, webhook, state, reason, waits, events, batch, test, replay, attempts, last } = delivery
  const { requested_at, first_attempt_at, next_attempt_at, ended_at } = delivery
  return {
    id,
    webhook,
    state,
    reason,
    waits_for: waits,
    events: events.map(event => ({ id: event.id, type: event.type, email: event.email })),
    batch,
    test,
    replay,
    attempts,
    ...(last ?? NO_REQUEST),
    requested_at,
    first_attempt_at,
    next_attempt_at,
    ended_at
  }
}

function rowOf ({ id, state, reason, waits, events, test, attempts, last, requested_at, next_attempt_at }: Shown) {
  const why = reason ?? (waits === null ? null : DELIVERY_WAIT_WORDS[waits])
  const [first] = events
  return {
    id,
    state: why === null ? state : `${state} (${why})`,
    event: events.length === 1 ? `${first!.type}${test ? ' (test)' : ''}` : `${events.length} events`,
    email: events.length === 1 ? first!.email : null,
    attempts,
    last: last?.status ?? oneLine(last?.error ?? ''),
    requested_at,
    next_attempt_at
  }
}

function tryAnswer ({ at, attempt, replay, status, error, error_kind, duration_ms, ...rest }: DeliveryAttempt) {
  const { response, url, headers } = rest
  return { at, attempt, replay, status, error, error_kind, duration_ms, request: { url, headers }, response }
}

function printTry (
  { at, attempt, replay, status, error, error_kind, duration_ms, response, url, headers }: DeliveryAttempt
): void {
  const what = status === null ? `${error_kind ?? 'no answer'}: ${oneLine(error ?? '')}` : String(status)
  console.log(
    `\n${at.toISOString()}  attempt ${attempt}${replay === null ? '' : ` of ${replay}`}  ${what}  ${
      durationText(duration_ms)
    }`
  )
  console.log(`  POST ${oneLine(url)}`)
  for (const [name, value] of Object.entries(headers)) console.log(`  ${oneLine(`${name}: ${value}`)}`)
  if (response !== '') console.log(`  answered ${JSON.stringify(oneLine(response).slice(0, 200))}`)
}
