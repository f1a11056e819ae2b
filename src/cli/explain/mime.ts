import { messageIdOf } from '#streams/email/decide.ts'
import { resolveOptions } from '#streams/email/defaults.ts'
import { requestedOf } from '#src/actions/email.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { readConfig } from '#src/base/config.ts'
import { newId } from '#src/base/id.ts'
import { newSecret } from '#src/base/secret.ts'
import { composeFor } from '#src/content/compose.ts'
import { createTokens } from '#src/content/token.ts'
import { readDraft, SendRequest } from '#src/servers/api/drafts.ts'
import { compileValidator } from '#src/servers/api/faults.ts'
import { Unexplained } from './input.ts'

const check = compileValidator(SendRequest)

/** The message that would go out to the first recipient of a send request, but for what only the running service knows:
 *  the domain's keys and the templates. */
export function messageOf (body: unknown): Buffer {
  const config = readConfig(process.env)
  const nowMs = systemClock.nowMs()
  const checked = check(body)
  const draft = readDraft(body as SendRequest, 'error' in checked ? checked.error.faults : [], {
    nowMs,
    contentRetentionMs: config.contentRetentionMs,
    isRepeatable: false
  })
  if (Array.isArray(draft)) {
    throw new Unexplained(draft.map(({ message }) => message).join(' '))
  }
  if (draft.template !== null) throw new Unexplained('template_id: templates are known to the running service only')
  const content = { html: draft.html, text: draft.text, files: draft.files.map(file => file.content) }
  const filled = { subject: draft.subject!, template: null, content, options: resolveOptions(draft.options) }
  const asked = {
    email: newId('em', nowMs),
    key: { id: newId('key', nowMs), test: true },
    nowMs,
    contentRetentionMs: config.contentRetentionMs
  }
  const request = requestedOf(draft, filled, asked)
  const outfit = {
    tokens: createTokens(config.secret ?? newSecret('')),
    trackingUrl: config.trackingUrl,
    returnPathHost: config.bounceDomain,
    signers: []
  }
  const copy = { messageId: messageIdOf(request, 0), date: timestamp(nowMs) }
  return composeFor(request, { email: request.email, n: 0, request: 1 }, content, copy, outfit).message
}
