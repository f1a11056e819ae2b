import { Type } from '@sinclair/typebox'
import { factType, Id, Time, type FactOf } from '../define.ts'

/** The event types of spec 6.1, in its order. */
export const EVENT_TYPES = ['email.delivered', 'email.bounced', 'email.opened', 'email.clicked', 'email.complained', 'email.unsubscribed'] as const
export type EventType = typeof EVENT_TYPES[number]
export const EventTypeSchema = Type.Union(EVENT_TYPES.map(name => Type.Literal(name)))

export const WebhookCreated = factType('webhook.created', 1, Type.Object({
  webhook: Id('wh'),
  url: Type.String({ maxLength: 2048 }),
  events: Type.Array(EventTypeSchema, { minItems: 1 }),
  /** The signing secret, sealed for the context of the webhook's id. */
  sealedSecret: Type.String(),
  /** Facts from this time on are its. */
  startAt: Time
}))

export const WebhookDisabled = factType('webhook.disabled', 1, Type.Object({
  webhook: Id('wh'),
  reason: Type.Union([Type.Literal('gone')])
}))

export const WebhookDeleted = factType('webhook.deleted', 1, Type.Object({ webhook: Id('wh') }))

export const webhookFacts = [WebhookCreated, WebhookDisabled, WebhookDeleted] as const

export type WebhookCreated = FactOf<typeof WebhookCreated>
