import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { findAsked } from '#projections/emails/as-of.ts'
import { emails } from '#projections/emails/project.ts'
import { EventFilter, getEmail, listEmails, parseCursor, type EmailFilters } from '#projections/emails/queries.ts'
import { EmailPage, EmailRecord } from '#projections/emails/records.ts'
import { EmailStatus } from '#projections/emails/status.ts'
import { parseAddress, parseDomain } from '#streams/address.ts'
import type { FieldFault } from '#streams/define.ts'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { emailAsOf } from '#src/actions/email-past.ts'
import { knownTime, parseTime, timestamp, type Clock } from '#src/base/clock.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { refuseFaults, type Api } from './context.ts'
import { mustFault, notFound } from './errors.ts'
import { ListQuery, readPage } from './pages.ts'
import { IdParams, isEmailId, listing, MUST_BE_TIME, mustBeTime, timeText } from './params.ts'

/** `status=bounced&status=failed`: one of the values must hold. */
const several = <Item extends TSchema>(item: Item, noun: string, max: number, description: string) =>
  Type.Optional(Type.Array(item, { minItems: 1, maxItems: max, uniqueItems: true, noun, description }))
const TAGS_MAX = 20

const text = (description: string, max: number) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: max, description }))

/** The query of GET /api/emails, after `foldMetadata`. */
const ListEmailsQuery = Type.Composite([
  ListQuery,
  Type.Object({
    status: several(
      Type.Union(EmailStatus.anyOf),
      'status',
      EmailStatus.anyOf.length,
      'Status of the email, or several of which it has one: `status=bounced&status=failed`.'
    ),
    to: text('Address of a recipient.', 320),
    from: text('Address of the sender.', 320),
    domain: text('Domain of the sender.', 253),
    tag: several(
      Type.String({ minLength: 1, maxLength: 128 }),
      'tag',
      TAGS_MAX,
      'One of its tags, or several of which it has at least one: `tag=receipt&tag=invoice`.'
    ),
    template_id: text('The template it was made from.', 100),
    metadata: Type.Optional(Type.Record(
      Type.String({ pattern: '^[^\\]]{1,200}$' }),
      Type.String(),
      {
        additionalProperties: false,
        maxProperties: 5,
        noun: 'filter',
        must: 'have at most 5 filters like metadata[order]=7',
        description: 'Values of `metadata`, by name: `metadata[order]=7`. At most 5.',
        // Swagger UI asks with the first example of a parameter, or makes one up.
        examples: [{}, { order: '7' }]
      }
    )),
    created_after: Type.Optional(timeText('Created then or later.')),
    created_before: Type.Optional(timeText('Created before then.')),
    event: several(
      Type.Union(EventFilter.anyOf, { must: `be one of ${EVENT_TYPES.join(', ')}` }),
      'event',
      EventFilter.anyOf.length,
      'An event of it, with or without `email.`, or several of which it has at least one.'
    ),
    q: text('Text in subject, sender or recipients.', 200)
  })
], { additionalProperties: false })

const GetEmailQuery = Type.Object({
  as_of: Type.Optional(Type.String({
    maxLength: 40,
    must: MUST_BE_TIME,
    description:
      'Answers with what was known of the email at this time, to the millisecond. 404 when the email was sent later.'
  }))
}, { additionalProperties: false })

const METADATA_FILTER = /^metadata\[([^\]]{1,200})\]$/

export function readRoutes (app: Api, { factLog: { bus, clock } }: Pick<Services, 'factLog'>, reads: Reads): void {
  app.get('/emails', {
    config: { scope: 'emails:list' },
    schema: {
      operationId: 'listEmails',
      summary: 'List emails',
      description: 'The emails of the account, newest first, without their bodies. All filters given must hold, of ' +
        'several values of one filter at least one; `q` looks for text in subject, sender and recipients.',
      tags: ['Emails'],
      querystring: ListEmailsQuery,
      response: { 200: EmailPage }
    },
    preValidation: async request => {
      request.query = foldMetadata(listing(request.query, ['status', 'tag', 'event']))
    },
    attachValidation: true
  }, async request => {
    const { limit, before } = readPage(request, parseCursor, meaningFaults(request.query))
    return await answerFrom(
      reads,
      request.principal!.account,
      emails,
      listEmails({ account: request.principal!.account, filters: filtersOf(request.query), limit, cursor: before })
    )
  })

  app.get('/emails/:id', {
    config: { scope: 'emails:metadata', errors: [404] },
    schema: {
      operationId: 'getEmail',
      summary: 'Get an email',
      description: 'The email, the status of each recipient, and a timeline of all that happened, with the replies of' +
        ' mail servers.',
      tags: ['Emails'],
      params: IdParams,
      querystring: GetEmailQuery,
      response: { 200: EmailRecord }
    },
    attachValidation: true
  }, async request => {
    const { params: { id }, query: { as_of: asOf } } = request
    refuseFaults(request, momentFaults(asOf, clock))
    if (!isEmailId(id)) throw notFound()
    const { account } = request.principal!
    const email = asOf === undefined
      ? await answerFrom(reads, account, emails, getEmail({ account, id }))
      : await emailAt(account, id, parseTime(asOf)!)
    if (email === null) throw notFound()
    return email
  })

  /** The request is in the projection, what was known then in the log. */
  async function emailAt (account: string, id: string, atMs: number): Promise<EmailRecord | null> {
    const asked = await answerFrom(reads, account, emails, findAsked({ account, id }))
    return asked === null ? null : await emailAsOf(bus, asked, atMs)
  }
}

/** What the schema cannot say of a moment in the past; what it has refused may be of any type. */
function momentFaults (asOf: unknown, clock: Clock): FieldFault[] {
  const ms = typeof asOf === 'string' && asOf.length <= 40 ? parseTime(asOf) : NaN
  if (ms === null) return [mustFault('as_of', 'invalid_value', mustBeTime(asOf as string))]
  return ms > clock.nowMs() ? [mustFault('as_of', 'invalid_value', 'not be in the future')] : []
}

/** A query string with its `metadata[name]` gathered in one object, as OpenAPI's deepObject means them. A `metadata`
 *  without brackets stays for the schema to refuse. */
function foldMetadata<Query extends object> (query: Query): Query {
  const given = Object.entries(query)
  const filters = given.flatMap(([name, value]) => {
    const key = METADATA_FILTER.exec(name)?.[1]
    return key === undefined ? [] : [[key, value] as const]
  })
  if (filters.length === 0) return query
  const rest = given.filter(([name]) => !METADATA_FILTER.test(name))
  return Object.fromEntries([['metadata', Object.fromEntries(filters)], ...rest]) as Query
}

/** What a schema cannot say: a 31st of February, a NUL. What it has refused may be of any type here. */
function meaningFaults (query: Record<string, unknown>): FieldFault[] {
  const faults: FieldFault[] = []
  for (const [field, value] of Object.entries(query)) {
    const texts = typeof value === 'object' && value !== null ? Object.entries(value).flat() : [value]
    if (texts.some(text => typeof text === 'string' && text.includes('\0'))) {
      faults.push(mustFault(field, 'invalid_characters', 'not contain NUL'))
    }
    const isTime = field === 'created_after' || field === 'created_before'
    if (isTime && typeof value === 'string' && parseTime(value) === null) {
      faults.push(mustFault(field, 'invalid_value', mustBeTime(value)))
    }
  }
  return faults
}

/** Addresses and domains are compared as they are stored, however they were spelt. */
function filtersOf ({ limit: _limit, cursor: _cursor, ...query }: Static<typeof ListEmailsQuery>): EmailFilters {
  const { to, from, domain, created_after: after, created_before: before } = query
  const addresses = { to: plain(to, parseAddress), from: plain(from, parseAddress), domain: plain(domain, parseDomain) }
  return { ...query, ...addresses, created_after: plainTime(after), created_before: plainTime(before) }
}

function plain (text: string | undefined, parse: (text: string) => string | null): string | undefined {
  return text === undefined ? undefined : parse(text) ?? text.toLowerCase()
}

/** The same as PostgreSQL reads it: it knows no offset of 16 hours. */
function plainTime (text: string | undefined): string | undefined {
  return text === undefined ? undefined : timestamp(knownTime(parseTime(text)!))
}
