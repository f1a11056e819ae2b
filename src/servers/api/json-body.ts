import type { FastifyInstance, FastifyRequest } from 'fastify'
import { isDeeperThan } from '#streams/json.ts'
import { DEPTH_MAX, malformedJson, tooDeep, unsupportedMediaType } from './errors.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** JSON and nothing else; bytes that are not UTF-8, and keys that reach for a prototype, are malformed. */
export function parseJsonStrictly (app: Pick<FastifyInstance, keyof FastifyInstance>): void {
  app.removeAllContentTypeParsers()
  const parse = app.getDefaultJsonParser('error', 'error')
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (!isPlainJson(request)) return done(unsupportedMediaType())
    let text: string
    try {
      text = utf8.decode(body as Buffer)
    } catch {
      return done(malformedJson())
    }
    // Some clients name the type on each request, also where there is nothing to send.
    if (text === '' && !needsBody(request)) return done(null, undefined)
    void parse(request, text, (error, value) => {
      if (error !== null) done(malformedJson())
      else done(isDeeperThan(value, DEPTH_MAX) ? tooDeep() : null, value)
    })
  })
}

/** False for a body that is compressed or in another charset: read as UTF-8 it would be garbage. */
function isPlainJson ({ headers }: FastifyRequest): boolean {
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8'
  return (headers['content-encoding'] ?? 'identity') === 'identity' && /^(utf-?8|us-ascii)$/i.test(charset)
}

/** False where the route takes no body, or null for one. */
function needsBody ({ routeOptions: { schema } }: FastifyRequest): boolean {
  const body = schema?.body as { anyOf?: Array<{ type?: string }> } | undefined
  return body !== undefined && body.anyOf?.some(({ type }) => type === 'null') !== true
}
