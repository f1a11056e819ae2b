import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseAddress } from '#streams/address.ts'
import { messageIdOf } from '#streams/email/decide.ts'
import { resolveOptions } from '#streams/email/defaults.ts'
import { urlFault } from '#streams/webhook/decide.ts'
import { partsOf, requestedOf } from '#src/actions/email.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { readConfig } from '#src/base/config.ts'
import { asError, Complaint } from '#src/base/errors.ts'
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
import { type CliCommand, misused, noVerb, readArgs, usageError } from './command.ts'

const check = compileValidator(SendRequest)

/** The message that would go out to the first recipient of a send request, but for what only the running service knows:
 *  the domain's keys and the templates. */
async function messageOf (body: unknown): Promise<Buffer> {
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
  const content = { html: draft.html, text: draft.text, ...partsOf(draft) }
  const filled = { subject: draft.subject!, template: null, content, options: resolveOptions(draft.options) }
  const asked = {
    email: newId('em', nowMs),
    principal: { id: newId('key', nowMs), test: true },
    nowMs,
    contentRetentionMs: config.contentRetentionMs
  }
  const request = requestedOf(draft, filled, asked)
  const outfit = {
    tokens: createTokens(...config.secret ?? [newSecret('')]),
    trackingUrl: config.trackingUrl,
    returnPathHost: config.bounceDomain,
    signers: []
  }
  const copy = { messageId: messageIdOf(request, 0), date: timestamp(nowMs) }
  return (await composeFor(request, { email: request.email, n: 0, request: 1 }, content, copy, outfit)).message
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
    explain: async ({ op: _op, id: _id, ...input }) => ({
      raw: (await messageOf(requestIn(input))).toString('base64')
    })
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

const LF = 0x0a

/** The lines of a stream of bytes as text, however they are cut; null for one of over `bytesMax` bytes, which is not
 *  held. Only LF ends a line: JSON may hold every other character that readers of text take for an end. */
async function* linesOf (stream: AsyncIterable<Buffer>, bytesMax: number): AsyncGenerator<string | null> {
  let parts: Buffer[] = []
  let bytes = 0
  const take = (): string | null => {
    const line = bytes > bytesMax ? null : Buffer.concat(parts).toString()
    parts = []
    bytes = 0
    return line
  }
  const hold = (part: Buffer) => {
    bytes += part.length
    if (bytes > bytesMax) parts = []
    else parts.push(part)
  }
  for await (const chunk of stream) {
    let from = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, from)) {
      hold(chunk.subarray(from, end))
      yield take()
      from = end + 1
    }
    hold(chunk.subarray(from))
  }
  if (bytes > 0) yield take()
}

/** A line of `--jsonl`, or its like from the command line. */
export type Input = Record<string, unknown>

/** Says what Jetpost makes of an input; `fromText` = the input of a command line. Source: contract, "jetpost explain".
 */
export interface Explainer {
  explain(input: Input): Promise<Record<string, unknown>> | Record<string, unknown>
  fromText(bytes: Buffer, flags: { stage?: string, data?: string }): Input
}

/** An input that is not one. */
export class Unexplained extends Error {
  override name = 'Unexplained'
}

const options = {
  jsonl: { type: 'boolean', default: false },
  stage: { type: 'string' },
  data: { type: 'string' }
} as const

/** Longer than any mail that is kept in base64. */
const LINE_BYTES_MAX = 40 * 1024 * 1024

export const explain: CliCommand = {
  usage: `jetpost explain bounce < mail.eml
jetpost explain reply <reply> [--stage connect|ehlo|mail|rcpt|data]
jetpost explain render <template> [--data '{…}']
jetpost explain track|address|webhook-url|mime <input>
jetpost explain --jsonl`,
  details: `  Runs the very code that does the work. The input is the argument, or standard input (also as -): a mail
  for bounce, an SMTP reply for reply, html for track, a template for render, an address, a webhook's URL, the
  API's body for mime. The answer is JSON.
  --jsonl  one JSON object a line in, {"op","id",…}, and one out, until the input ends; bytes are base64`,
  async run (args) {
    // The reader has closed its end.
    process.stdout.on('error', () => process.exit())
    const { values, positionals } = readArgs(args, options)
    if (values.jsonl) return await explainLines()
    const [op = '', text = '-', ...rest] = positionals
    const explainer = Object.hasOwn(explainers, op) ? explainers[op] : undefined
    if (explainer === undefined) throw noVerb(explain, 'explain', op, Object.keys(explainers))
    if (rest.length > 0) throw misused(explain)
    if (op === 'bounce' && text !== '-') {
      throw usageError('The mail must be on standard input: jetpost explain bounce < mail.eml')
    }
    const answer = await answerOf(
      explainer,
      () => explainer.fromText(text === '-' ? readFileSync(0) : Buffer.from(text), values)
    )
    console.log(JSON.stringify(answer, null, 2))
    if ('error' in answer) process.exitCode = 1
  }
}

/** One line, one answer, in their order, until the input ends. */
async function explainLines (): Promise<void> {
  for await (const line of linesOf(process.stdin, LINE_BYTES_MAX)) {
    if (line?.trim() === '') continue
    const answer = `${JSON.stringify(await answerLine(line))}\n`
    if (!process.stdout.write(answer)) await new Promise(resolve => process.stdout.once('drain', resolve))
  }
}

async function answerLine (line: string | null): Promise<Record<string, unknown>> {
  const input = line === null ? null : parsed(line)
  if (input === null) {
    return { id: null, error: line === null ? `a line has at most ${LINE_BYTES_MAX} bytes` : 'not a JSON object' }
  }
  const { op, id = null } = input
  const explainer = typeof op === 'string' && Object.hasOwn(explainers, op) ? explainers[op] : undefined
  return {
    id,
    ...(explainer === undefined
      ? { error: `op is one of ${Object.keys(explainers).join(', ')}` }
      : await answerOf(explainer, () => input))
  }
}

function parsed (line: string): Input | null {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Input : null
  } catch {
    return null
  }
}

async function answerOf (explainer: Explainer, read: () => Input): Promise<Record<string, unknown>> {
  try {
    return await explainer.explain(read())
  } catch (error) {
    if (error instanceof Complaint) throw error
    // Whatever one input does, the next is still answered.
    return {
      error: error instanceof Unexplained ? error.message : `this input was too much: ${asError(error).message}`
    }
  }
}
