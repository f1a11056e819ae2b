import type { RateLimitStatus } from '#src/actions/limiter.ts'
import type { Api } from '../context.ts'
import type { Dialect } from '../dialect.ts'
import { withoutByteLists } from './byte-lists.ts'
import { resendKeyRoutes } from './api-keys.ts'
import { resendDomainRoutes } from './domains.ts'
import { resendChangeRoutes, resendEmailRoutes } from './email-reads.ts'
import { resendSendRoutes, type ResendModules } from './emails.ts'
import { answerInResend } from './errors.ts'
import { resendWebhookRoutes } from './webhooks.ts'
import { VALUES_MAX } from '../errors.ts'

/** How Resend words what all of its requests and answers have. */
export const RESEND_DIALECT: Dialect = {
  // What is shorter cannot have more values than may be.
  readable: body => (body.length <= VALUES_MAX ? body : withoutByteLists(body)),
  isLenient: true,
  answer: answerInResend,
  limitHeaders
}

/** Seconds, where ours have a time. */
function limitHeaders ({ limit, remaining, resetS }: RateLimitStatus, nowMs: number): Record<string, string> {
  return {
    'ratelimit-limit': String(limit),
    'ratelimit-remaining': String(remaining),
    'ratelimit-reset': String(Math.max(1, Math.ceil(resetS - nowMs / 1000)))
  }
}

export function resendRoutes (app: Api, modules: ResendModules): void {
  const { services } = modules
  resendSendRoutes(app, modules)
  resendEmailRoutes(app, modules)
  resendChangeRoutes(app, modules)
  resendDomainRoutes(app, services)
  resendKeyRoutes(app, services)
  resendWebhookRoutes(app, services)
}
