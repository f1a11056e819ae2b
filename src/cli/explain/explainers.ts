import { randomBytes } from 'node:crypto'
import { parseAddress } from '#streams/address.ts'
import { messageIdOf } from '#streams/email/decide.ts'
import { resolveOptions } from '#streams/email/defaults.ts'
import { urlFault } from '#streams/webhook/decide.ts'
import { requestedOf } from '#src/actions/email.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { readConfig } from '#src/base/config.ts'
import { newId } from '#src/base/id.ts'
import { newSecret } from '#src/base/secret.ts'
import { composeFor } from '#src/content/compose.ts'
import { linksIn, trackHtml } from '#src/content/links.ts'
import { MustacheError, parse, type ParsedTemplate, render } from '#src/content/mustache.ts'
import { CLICK_URL_MAX, createTokens } from '#src/content/token.ts'
import { hostFault } from '#src/dns/guard.ts'
import { classify, verdictOnAddress } from '#src/feedback/classify.ts'
import { parseReply, verdictOf } from '#src/feedback/reply.ts'
import { readReport } from '#src/feedback/report.ts'
import { readDraft, SendRequest } from '#src/servers/api/drafts.ts'
import { compileValidator } from '#src/servers/api/faults.ts'
import { type Explainer, type Input, Unexplained } from '../explain.ts'

const check = compileValidator(SendRequest)

/** The message that would go out to the first recipient of a send request, but for what only the running service knows:
 *  the domain's keys and the templates. */
function messageOf (body: unknown): Buffer {
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

const STAGES = ['connect', 'ehlo', 'mail', 'rcpt', 'data'] as const
const NOWHERE = { email: 'em_00000000000000000000000000', n: 0, request: 1 }

export const explainers: Record<string, Explainer> = {
  bounce: {
    fromText: bytes => ({ raw: bytes.toString('base64') }),
    async explain (input) {
      const { kind, recipients } = await readReport(Buffer.from(textIn(input, 'raw'), 'base64'))
      return {
        kind,
        recipients: recipients.map(({ address, kind, status, reason }) => ({ address, kind, status, reason }))
      }
    }
  },
  reply: {
    fromText: (bytes, { stage = 'rcpt' }) => ({ reply: bytes.toString().trim(), stage }),
    explain: input => explainReply(textIn(input, 'reply'), input.stage ?? 'rcpt')
  },
  track: {
    fromText: bytes => ({ html: bytes.toString() }),
    explain: input =>
      explainTracking(
        textIn(input, 'html'),
        (input.base === undefined ? 'http://localhost:8080' : textIn(input, 'base')).replace(/\/+$/, '')
      )
  },
  render: {
    fromText: (bytes, { data = '{}' }) => ({ template: bytes.toString(), data: jsonOf(data) }),
    explain: ({ template, data, partials }) => ({ text: rendered(textIn({ template }, 'template'), data, partials) })
  },
  address: {
    fromText: bytes => ({ address: bytes.toString().replace(/\r?\n$/, '') }),
    explain: input => ({ ok: parseAddress(textIn(input, 'address')) !== null })
  },
  'webhook-url': {
    fromText: bytes => ({ url: bytes.toString().trim() }),
    async explain (input) {
      const url = textIn(input, 'url')
      const reason = urlFault(url, false)?.message ?? await hostFault(new URL(url).hostname)
      return { ok: reason === null, reason }
    }
  },
  mime: {
    fromText: bytes => ({ request: jsonOf(bytes.toString()) }),
    explain: ({ op: _op, id: _id, ...input }) => ({ raw: messageOf(requestIn(input)).toString('base64') })
  }
}

function textIn (input: Input, name: string): string {
  const value = input[name]
  if (typeof value !== 'string') throw new Unexplained(`${name} is a string`)
  return value
}

function jsonOf (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Unexplained('not JSON')
  }
}

/** The body of a send request: the line's own fields, or all of it under `request`. */
function requestIn (input: Input): unknown {
  return input.request ?? input
}

function explainReply (text: string, stage: unknown): Record<string, unknown> {
  const at = STAGES.find(name => name === stage)
  if (at === undefined) throw new Unexplained(`stage is one of ${STAGES.join(', ')}`)
  const reply = parseReply(text)
  if (reply === null) {
    const name = classify({ text, status: null, code: null, stage: at })
    const kind = verdictOnAddress(name, { code: null, status: null })
    return { kind, class: name, status: null, retry: kind === 'soft', suppress: kind === 'hard' }
  }
  const { kind, class: name, suppress } = verdictOf(reply, at)
  if (name === 'delivered') throw new Unexplained('the reply says yes')
  return {
    kind: verdictOnAddress(name, { code: reply.code, status: reply.enhanced }),
    class: name,
    status: reply.enhanced,
    retry: kind === 'deferred',
    suppress
  }
}

/** With tokens of nobody: what they look like, not what they open. */
function explainTracking (html: string, base: string): Record<string, unknown> {
  const tokens = createTokens(randomBytes(32).toString('hex'))
  const token = tokens.clicks(NOWHERE)
  const fits = (url: string) => url.length <= CLICK_URL_MAX
  const click = (url: string) => (fits(url) ? `${base}/c/${token(url)}` : url)
  const links = linksIn(html).map(({ url, tracked }) => ({ url, tracked: tracked && fits(url) }))
  return { html: trackHtml(html, { click, pixel: `${base}/o/${tokens.mint('open', NOWHERE)}.gif` }), links }
}

function rendered (template: string, data: unknown, partials: unknown): string {
  try {
    const named = new Map<string, ParsedTemplate>(
      Object.entries(partials ?? {}).map(([name, text]) => [name, parse(String(text))])
    )
    return render(parse(template), data ?? {}, { escape: 'html', partials: named })
  } catch (error) {
    if (error instanceof MustacheError) throw new Unexplained(error.message)
    throw error
  }
}
