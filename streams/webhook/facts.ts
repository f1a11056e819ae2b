import { Type } from '@sinclair/typebox'
import { factType, Id, Nullable, Time, type FactOf } from '../define.ts'

/** The event types of spec 6.1, in its order. */
export const EVENT_TYPES = [
  'email.delivered',
  'email.bounced',
  'email.opened',
  'email.clicked',
  'email.complained',
  'email.unsubscribed'
] as const
export type EventType = typeof EVENT_TYPES[number]
export const EventTypeSchema = Type.Union(EVENT_TYPES.map(name => Type.Literal(name)))

export const URL_LENGTH_MAX = 2048
/** Requests at once from one process. */
export const CONCURRENCY_MAX = 100
/** Events in one request, and how long the first of them may wait for the others. Below 100 ms nothing is gained: a
 *  request of its own would be there sooner. */
export const BATCH_EVENTS_MAX = 100
export const BATCH_WAIT_MS_MIN = 100
export const BATCH_WAIT_MS_MAX = 60_000

/** Mail of live keys, of test keys, or of both. */
export const WEBHOOK_MODES = ['live', 'test', 'both'] as const
export type WebhookMode = typeof WEBHOOK_MODES[number]

/** How events are worded: as ours, or as Resend's, for receivers that were written for those. */
export const WEBHOOK_FORMATS = ['jetpost', 'resend'] as const
export type WebhookFormat = typeof WEBHOOK_FORMATS[number]

/** Which events of `email.bounced`: all, without deferrals, or only those. */
export const BOUNCE_CHOICES = ['all', 'final', 'deferred'] as const
export type BounceChoice = typeof BOUNCE_CHOICES[number]

/** The settings of an endpoint. */
const settings = {
  url: Type.String({ maxLength: URL_LENGTH_MAX }),
  events: Type.Array(EventTypeSchema, { minItems: 1 }),
  /** Its deliveries wait. */
  paused: Type.Boolean(),
  /** Requests at once; null = the default, 8. */
  concurrency: Nullable(Type.Integer({ minimum: 1, maximum: CONCURRENCY_MAX })),
  /** Several events in one request; null = one event a request. */
  batch: Nullable(Type.Object({
    maxEvents: Type.Integer({ minimum: 1, maximum: BATCH_EVENTS_MAX }),
    maxWaitMs: Type.Integer({ minimum: BATCH_WAIT_MS_MIN, maximum: BATCH_WAIT_MS_MAX })
  })),
  /** Does it get an event for each deferral, or only for the first one and the outcome. */
  everyDeferral: Type.Boolean(),
  /** Left out = all. */
  bounces: Type.Optional(Type.Union(BOUNCE_CHOICES.map(choice => Type.Literal(choice)))),
  /** The keys whose mail it hears of. */
  mode: Type.Union(WEBHOOK_MODES.map(mode => Type.Literal(mode)))
}

export const WebhookCreated = factType(
  'webhook.created',
  1,
  Type.Object({
    webhook: Id('wh'),
    ...settings,
    /** For good; left out = ours. */
    format: Type.Optional(Type.Literal('resend')),
    /** The signing secret, sealed for the context of the webhook's id. */
    sealedSecret: Type.String(),
    /** It gets the facts from this time on. When that is before it was created, a backfill sends those of the log. */
    startAt: Time
  })
)

/** All settings, as they are from now on. */
export const WebhookChanged = factType('webhook.changed', 1, Type.Object({ webhook: Id('wh'), ...settings }))

/** A new signing secret. Until `previousUntil` the one before it signs too: alone in the spec's header, beside the new
 *  one in Standard Webhooks'. */
export const WebhookSecretRotated = factType(
  'webhook.secret_rotated',
  1,
  Type.Object({ webhook: Id('wh'), sealedSecret: Type.String(), previousUntil: Time })
)

/** The same secrets, sealed with the newest of JETPOST_SECRET; `previousSealedSecret` is that of the overlap, null =
 *  there is none. */
export const WebhookSecretResealed = factType(
  'webhook.secret_resealed',
  1,
  Type.Object({ webhook: Id('wh'), sealedSecret: Type.String(), previousSealedSecret: Nullable(Type.String()) })
)

/** The overlap is over before its time. */
export const WebhookRotationFinished = factType('webhook.rotation_finished', 1, Type.Object({ webhook: Id('wh') }))

/** It was disabled, and gets the events from now on. */
export const WebhookEnabled = factType('webhook.enabled', 1, Type.Object({ webhook: Id('wh') }))

/** It has failed without a success since then, for a quarter of an hour at least. */
export const WebhookFailing = factType('webhook.failing', 1, Type.Object({ webhook: Id('wh'), since: Time }))

/** The first success after that. */
export const WebhookRecovered = factType('webhook.recovered', 1, Type.Object({ webhook: Id('wh') }))

/** `gone` = it answered 410; `failing` = it has done nothing but fail for five days. */
export const WebhookDisabled = factType(
  'webhook.disabled',
  1,
  Type.Object({
    webhook: Id('wh'),
    reason: Type.Union([Type.Literal('gone'), Type.Literal('failing')])
  })
)

export const WebhookDeleted = factType('webhook.deleted', 1, Type.Object({ webhook: Id('wh') }))

export const webhookFacts = [
  WebhookCreated,
  WebhookChanged,
  WebhookSecretRotated,
  WebhookSecretResealed,
  WebhookRotationFinished,
  WebhookEnabled,
  WebhookFailing,
  WebhookRecovered,
  WebhookDisabled,
  WebhookDeleted
] as const

export type WebhookCreated = FactOf<typeof WebhookCreated>
