import type { FastifyInstance, FastifyRequest } from 'fastify'
import { hasMoreValuesThan, isDeeperThan } from '#streams/json.ts'
import type { KeyedSemaphore } from '#src/base/keyed-semaphore.ts'
import { turnsOfBigBodies } from './big-bodies.ts'
import type { Dialect } from './dialect.ts'
import {
  compressed,
  DEPTH_MAX,
  malformedJson,
  tooDeep,
  tooManyValues,
  VALUES_MAX,
  wrongCharset,
  type HttpProblem
} from './errors.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** JSON and nothing else; bytes that are not UTF-8, and keys that reach for a prototype, are malformed. `turns` = those
 *  of big bodies, of all contexts together. */
export function parseJsonStrictly (
  app: Pick<FastifyInstance, keyof FastifyInstance>,
  turns: KeyedSemaphore,
  { readable }: Dialect
): void {
  app.removeAllContentTypeParsers()
  const parse = app.getDefaultJsonParser('error', 'error')
  const inTurn = turnsOfBigBodies(app, turns)
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    inTurn((request, bytes, done) => {
      const problem = encodingProblem(request)
      if (problem !== null) return done(problem)
      const body = readable(bytes)
      if (hasMoreValuesThan(body, VALUES_MAX)) return done(tooManyValues())
      let text: string
      try {
        text = utf8.decode(body)
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
  )
}

/** A body that is compressed or in another charset would be garbage, read as UTF-8. */
export function encodingProblem ({ headers }: FastifyRequest): HttpProblem | null {
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8'
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') return compressed()
  return /^(utf-?8|us-ascii)$/i.test(charset) ? null : wrongCharset()
}

/** False where the route takes no body, or null for one. */
export function needsBody ({ routeOptions: { schema } }: FastifyRequest): boolean {
  const body = schema?.body as { anyOf?: Array<{ type?: string }> } | undefined
  return body !== undefined && body.anyOf?.some(({ type }) => type === 'null') !== true
}
