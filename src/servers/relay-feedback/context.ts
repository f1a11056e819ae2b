import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { opens } from '#streams/feedback-source/decide.ts'
import type { FeedbackSourceEntry } from '#streams/feedback-source/state.ts'
import { INBOUND_STORED_BYTES_MAX, StreamUsage } from '#src/actions/inbound-usage.ts'
import { keepReports } from '#src/actions/inbound.ts'
import type { Services } from '#src/actions/services.ts'
import { KeyedSemaphore } from '#src/base/keyed-semaphore.ts'
import type { Log } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { readRelay } from '#src/feedback/relays/read.ts'
import { equalTexts, MailgunSignatures, sendgridFault } from './signatures.ts'
import { NotFromSns, Sns, type FetchText } from './sns.ts'

export interface RelayFeedbackOptions {
  services: Services
  /** How Amazon is asked; left out = over the internet. */
  fetchText?: FetchText
  onRefused: (provider: string, why: string) => void
  log: Log
}

/** SendGrid sends up to 768 kB, Amazon SNS 256 kB. */
const BODY_BYTES_MAX = 1024 * 1024
/** Requests whose body may be in memory, in all and of one source; the bodies of those that wait stay where they come
 *  from. */
const ROOM = { max: 48, maxPerKey: 32, waitMs: 20_000, waitingMax: 5000, waitingMaxPerKey: 4000 }
const USAGE_POLL_MS = 5000
const RETRY_AFTER_S = 30

declare module 'fastify' {
  interface FastifyRequest {
    feedbackSource: FeedbackSourceEntry | null
  }
}

type Route = { Params: { source: string, secret: string }, Body: Buffer | undefined }

/** The request is not taken; the provider learns the status, and nothing else. */
class Refused extends Error {
  readonly statusCode: number
  readonly why: string
  constructor (statusCode: number, why: string) {
    super(why)
    this.statusCode = statusCode
    this.why = why
  }
}

/** `POST /feedback/<source>/<secret>`: where relays tell what became of mail. 200 = what it says is in the log. */
export async function relayFeedback (app: FastifyInstance, options: RelayFeedbackOptions): Promise<void> {
  const { services: { directory, factLog }, onRefused, log } = options
  const room = new KeyedSemaphore(ROOM)
  const usage = await StreamUsage.open({
    bus: factLog.bus,
    bytesMax: INBOUND_STORED_BYTES_MAX,
    pollMs: USAGE_POLL_MS,
    log
  })
  const takers = createTakers(options)
  app.addHook('onClose', () => usage.stop())
  app.decorateRequest('feedbackSource', null)

  // Before the body: a stranger's is not read.
  app.addHook<Route>('onRequest', async (request, reply) => {
    // The body is told by the source, whatever type it says it has: Amazon SNS says text.
    delete request.headers['content-type']
    reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
    const { source: id, secret } = request.params
    const source = directory.now.feedbackSources.get(id)
    const given = sha256Hex(secret ?? '')
    if (source === undefined || !opens(source, factLog.clock.nowMs(), hash => equalTexts(hash, given))) {
      throw new Refused(404, 'unknown')
    }
    request.feedbackSource = source
    if (usage.share() >= 1) throw new Refused(503, 'full')
    if (!await room.acquire(id)) throw new Refused(503, 'busy')
    if (reply.raw.closed || reply.raw.destroyed) room.release(id)
    else reply.raw.once('close', () => room.release(id))
  })

  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer', bodyLimit: BODY_BYTES_MAX },
    (_request, body, done) => done(null, body)
  )

  app.setErrorHandler(async (error: FastifyError | Refused, request, reply) => {
    const provider = request.feedbackSource?.provider ?? 'none'
    const { statusCode = 503 } = error
    const status = statusCode < 500 ? statusCode : 503
    const why = error instanceof Refused ? error.why : status === 503 ? 'unavailable' : 'body'
    onRefused(provider, why)
    const line = { requestId: request.id, source: request.feedbackSource?.id, provider, status, why }
    if (request.feedbackSource !== null) log.warn({ ...line, err: status === 503 ? error : undefined }, 'relay refused')
    if (status === 503) reply.header('retry-after', RETRY_AFTER_S)
    return await reply.code(status).send({ error: WORDS[status] ?? 'Bad request' })
  })

  app.post<Route>('/feedback/:source/:secret', async (request, reply) => {
    const source = request.feedbackSource!
    const raw = request.body ?? Buffer.alloc(0)
    const kept = await takers[source.provider](source, raw, request, reply)
    usage.add(kept === 0 ? 0 : raw.length)
    return { received: kept }
  })
}

const WORDS: Record<number, string> = {
  401: 'The signature does not verify.',
  404: 'Not found',
  406: 'This has been taken already.',
  413: `The body must have at most ${BODY_BYTES_MAX} bytes.`,
  503: 'Unavailable: try again.'
}

type Taker = (source: FeedbackSourceEntry, raw: Buffer, request: FastifyRequest, reply: FastifyReply) => Promise<number>

/** Each verifies a request, and keeps what it says; resolves to the number of reports. */
function createTakers (
  { services: { factLog, vault }, fetchText, log }: RelayFeedbackOptions
): Record<FeedbackSourceEntry['provider'], Taker> {
  const sns = new Sns(fetchText)
  const mailgun = new MailgunSignatures()
  const { clock } = factLog
  const keyOf = ({ id, sealedKey }: FeedbackSourceEntry) => vault.open(sealedKey!, id)

  async function keep (source: FeedbackSourceEntry, body: unknown, { id }: FastifyRequest): Promise<number> {
    const events = readRelay(source, body)
    await keepReports(factLog, source, id, events)
    return events.length
  }

  const plain: Taker = async (source, raw, request) => await keep(source, parse(raw), request)

  return {
    postmark: plain,
    brevo: plain,
    generic: plain,
    async ses (source, raw, request) {
      const said = await sns.read(parse(raw), source.topicArn!, clock.nowMs()).catch(error => {
        throw error instanceof NotFromSns ? new Refused(401, 'signature') : error
      })
      if (said.type === 'notification') return await keep(source, tryParse(said.message), request)
      log.warn({ source: source.id }, `the subscription of the SNS topic is ${said.type}`)
      return 0
    },
    async mailgun (source, raw, request) {
      const body = parse(raw)
      const fault = mailgun.fault(body, keyOf(source), source.id, clock.nowMs())
      // To Mailgun 406 means that it need not come again: what it said is in the log.
      if (fault !== null) throw new Refused(fault === 'replayed' ? 406 : 401, fault)
      const kept = await keep(source, body, request)
      mailgun.take(body, source.id)
      return kept
    },
    async sendgrid (source, raw, request) {
      const fault = sendgridFault(request.headers, raw, keyOf(source), clock.nowMs())
      if (fault !== null) throw new Refused(401, fault)
      return await keep(source, parse(raw), request)
    }
  }
}

function parse (raw: Buffer): unknown {
  const value = tryParse(raw.toString('utf8'))
  if (value === null) throw new Refused(400, 'body')
  return value
}

/** null = it is no JSON. What a topic says to people is none, and no fault of the provider's. */
function tryParse (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
