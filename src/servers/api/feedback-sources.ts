import { Type, type Static } from '@sinclair/typebox'
import { NAME_LENGTH_MAX, Nullable } from '#streams/define.ts'
import {
  FEEDBACK_PROVIDERS,
  JsonPointer,
  KINDS_MAX,
  POINTER_LENGTH_MAX,
  type FeedbackMapping
} from '#streams/feedback-source/facts.ts'
import type { FeedbackSourceEntry } from '#streams/feedback-source/state.ts'
import { REPORT_KINDS } from '#streams/inbound/facts.ts'
import { nameFault } from '#streams/key/decide.ts'
import {
  changeFeedbackSource,
  createFeedbackSource,
  deleteFeedbackSource,
  rotateFeedbackSource,
  type FeedbackSourceWish
} from '#src/actions/feedback-source.ts'
import type { Services } from '#src/actions/services.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Api } from './context.ts'
import { askerOf, IdParams, MUST_BE_OBJECT, textFaults } from './params.ts'
import { ResourceRoutes } from './resource.ts'

const BODY = { must: MUST_BE_OBJECT, additionalProperties: false }
const MUST_BE_POINTER = `be a JSON pointer of at most ${POINTER_LENGTH_MAX} characters, like /event/type`
const MUST_BE_KINDS = `be an object of at most ${KINDS_MAX} words, each with one of ${REPORT_KINDS.join(', ')}`

const pointer = (description: string) => Type.String({ ...JsonPointer, must: MUST_BE_POINTER, description })
const Mapping = Type.Object({
  reports: Type.Optional(pointer('To one report, or to a list of them. Left out = the whole body is it.')),
  message_id: pointer('To our Message-ID, or to a return path of ours.'),
  recipient: Type.Optional(pointer("To the recipient's address.")),
  kind: pointer('To the word that says what happened.'),
  reason: Type.Optional(pointer("To the receiving server's words.")),
  time: Type.Optional(pointer('To the time: RFC 3339, or Unix seconds.')),
  kinds: Type.Record(Type.String(), Type.Union(REPORT_KINDS.map(kind => Type.Literal(kind))), {
    maxProperties: KINDS_MAX,
    must: MUST_BE_KINDS,
    description: 'What each word at `kind` means. Other words mean nothing.'
  })
}, {
  ...BODY,
  description: 'Where a report has what, by JSON pointers (RFC 6901); each of the others into one report.'
})

const settings = {
  verification_key: Type.Optional(Nullable(Type.String({
    description: "What its requests are verified with: Mailgun's HTTP webhook signing key, or SendGrid's public key."
  }))),
  topic_arn: Type.Optional(Nullable(Type.String({ description: 'The topic of Amazon SNS that reports, for `ses`.' }))),
  mapping: Type.Optional(Nullable(Mapping))
}
const NameField = Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'A name for people.' })
const Provider = Type.Union(FEEDBACK_PROVIDERS.map(name => Type.Literal(name)), {
  must: `be one of ${FEEDBACK_PROVIDERS.join(', ')}`
})
const CreateRequest = Type.Object({
  provider: Provider,
  name: NameField,
  ...settings,
  only_account: Type.Optional(Nullable(Type.String({
    description: 'The one account whose mail it may report on. `null` = that of all.'
  })))
}, {
  ...BODY,
  examples: [
    { provider: 'ses', name: 'SES Frankfurt', topic_arn: 'arn:aws:sns:eu-central-1:123456789012:jetpost' },
    {
      provider: 'generic',
      name: 'Our own relay',
      mapping: { message_id: '/message_id', kind: '/event', reason: '/reply', kinds: { bounce: 'failed' } }
    }
  ]
})
const ChangeRequest = Type.Object({ name: Type.Optional(NameField), ...settings }, {
  ...BODY,
  examples: [{ name: 'SES Ireland' }]
})

const answer = {
  id: Type.String(),
  provider: Provider,
  name: Type.String(),
  topic_arn: Nullable(Type.String()),
  has_verification_key: Type.Boolean(),
  mapping: Nullable(Mapping),
  only_account: Nullable(Type.String()),
  url_rotation: Nullable(
    Type.Object({ previous_expires_at: Type.String({ description: 'Until then the URL before works, too.' }) })
  ),
  created_at: Type.String()
}
const EXAMPLE = {
  id: 'fs_01m7yse7ke2esfck840wxx2ekh',
  provider: 'ses' as const,
  name: 'SES Frankfurt',
  topic_arn: 'arn:aws:sns:eu-central-1:123456789012:jetpost',
  has_verification_key: false,
  mapping: null,
  only_account: null,
  url_rotation: null,
  created_at: '2026-11-24T12:00:00.000Z'
}
const URL_EXAMPLE = 'https://mail.example.com/feedback/fs_01m7yse7ke2esfck840wxx2ekh/' +
  'mJ0g0bq3vLwq1b8b2k9Yd2m7x5cQ4h6n8rT1uVwXyZ0'
const SourceAnswer = Type.Object(answer, { examples: [EXAMPLE] })
const OpenSourceAnswer = Type.Object({
  ...answer,
  url: Type.String({ description: 'Where the provider posts to. It holds the secret, and is told only here.' })
}, { examples: [{ ...EXAMPLE, url: URL_EXAMPLE }] })

const FIELDS = {
  invalid_verification_key: 'verification_key',
  invalid_topic_arn: 'topic_arn',
  invalid_mapping: 'mapping',
  invalid_only_account: 'only_account'
}
const CREATE_TEXT = 'Give `url` to the provider as the URL of its webhook. `ses` takes a `topic_arn`, `mailgun` and ' +
  '`sendgrid` a `verification_key`, `generic` a `mapping`.'
const ROTATE_TEXT = 'The answer has a new `url`; the one before works for 24 more hours.'

/** The relays that report on mail, for the operators of the installation. */
export function feedbackSourceRoutes (app: Api, services: Services, publicUrl: string): void {
  const answerNow = (source: FeedbackSourceEntry) => answerOf(source, services.factLog.clock.nowMs())
  const openAnswer = ({ feedbackSource, secret }: { feedbackSource: FeedbackSourceEntry, secret: string }) => ({
    ...answerNow(feedbackSource),
    url: `${publicUrl}/feedback/${feedbackSource.id}/${secret}`
  })
  const routes = new ResourceRoutes(app, services, {
    kind: 'feedbackSource',
    tag: 'Feedback sources',
    scopes: { read: 'operator', write: 'operator' },
    prefix: 'fs',
    schema: SourceAnswer,
    answerOf: answerNow
  })

  routes.write('POST', '/feedback-sources', ['createFeedbackSource', 'Create a feedback source', CREATE_TEXT], {
    schema: { body: CreateRequest, response: { 201: OpenSourceAnswer } },
    errors: [409],
    faults: request => textFaults(request, 'name', nameFault),
    act: request =>
      createFeedbackSource(services, askerOf(request), {
        verificationKey: null,
        topicArn: null,
        mapping: null,
        ...wishOf(request.body),
        name: request.body.name,
        provider: request.body.provider,
        onlyAccount: request.body.only_account ?? null
      }),
    fieldOf: FIELDS,
    location: ({ feedbackSource }) => `/api/feedback-sources/${feedbackSource.id}`,
    tell: openAnswer
  })
  routes.list('/feedback-sources', ['listFeedbackSources', 'List feedback sources'])
  routes.get('/feedback-sources/:id', ['getFeedbackSource', 'Get a feedback source'])
  routes.write('PATCH', '/feedback-sources/:id', ['updateFeedbackSource', 'Change a feedback source'], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: SourceAnswer } },
    errors: [404, 409],
    faults: request => textFaults(request, 'name', nameFault),
    act: request => changeFeedbackSource(services, askerOf(request), request.params.id, wishOf(request.body)),
    fieldOf: FIELDS,
    tell: ({ feedbackSource }) => answerNow(feedbackSource)
  })
  routes.write('POST', '/feedback-sources/:id/rotate', [
    'rotateFeedbackSource',
    'Give a feedback source a new URL',
    ROTATE_TEXT
  ], {
    schema: { params: IdParams, response: { 200: OpenSourceAnswer } },
    errors: [404, 409],
    act: request => rotateFeedbackSource(services, askerOf(request), request.params.id),
    tell: openAnswer
  })
  routes.write('DELETE', '/feedback-sources/:id', ['deleteFeedbackSource', 'Delete a feedback source'], {
    schema: { params: IdParams, response: { 204: Type.Null() } },
    errors: [404, 409],
    act: request => deleteFeedbackSource(services, askerOf(request), request.params.id),
    tell: () => null
  })
}

/** What a body sets; what it leaves out is left out. */
function wishOf (body: Static<typeof ChangeRequest>): Partial<FeedbackSourceWish> {
  const { name, verification_key: verificationKey, topic_arn: topicArn, mapping } = body
  return {
    ...(name === undefined ? {} : { name }),
    ...(verificationKey === undefined ? {} : { verificationKey }),
    ...(topicArn === undefined ? {} : { topicArn }),
    ...(mapping === undefined ? {} : { mapping: mapping === null ? null : mappingOf(mapping) })
  }
}

function mappingOf (mapping: Static<typeof Mapping>): FeedbackMapping {
  const { reports = '', message_id: messageId, recipient = null, kind, reason = null, time = null, kinds } = mapping
  return { reports, messageId, recipient, kind, reason, time, kinds }
}

export function answerOf (source: FeedbackSourceEntry, nowMs: number): Static<typeof SourceAnswer> {
  const { id, provider, name, topicArn, sealedKey, mapping, onlyAccount, previous, createdAt } = source
  return {
    id,
    provider,
    name,
    topic_arn: topicArn,
    has_verification_key: sealedKey !== null,
    mapping: mapping === null ? null : shownMapping(mapping),
    only_account: onlyAccount,
    url_rotation: previous === null || previous.untilMs <= nowMs
      ? null
      : { previous_expires_at: timestamp(previous.untilMs) },
    created_at: createdAt
  }
}

function shownMapping ({ messageId, recipient, reason, time, ...rest }: FeedbackMapping): Static<typeof Mapping> {
  return {
    ...rest,
    message_id: messageId,
    ...(recipient === null ? {} : { recipient }),
    ...(reason === null ? {} : { reason }),
    ...(time === null ? {} : { time })
  }
}
