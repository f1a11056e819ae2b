import type { FastifyInstance } from 'fastify'
import type { Services } from '#src/actions/services.ts'
import { errorPage } from './pages.ts'
import type { Rest } from './token.ts'
import { isProgram } from './visitor.ts'
import type { Visits } from './visits.ts'

/** GET /c/<token>. Where it leads stands in the token alone, under our MAC: nobody else can make us lead anywhere. HEAD
 *  looks and is not counted. */
export function clickRoute (app: FastifyInstance, services: Services, visits: Visits): void {
  app.get<Rest>('/c/*', async (request, reply) => {
    const link = services.tokens.readClick(request.params['*'])
    const target = link === null ? null : webUrl(link.url)
    if (link === null || target === null) return await errorPage(reply, 404)
    const { pointer, url } = link
    if (request.method !== 'HEAD') {
      await visits.record(pointer, { type: 'email.clicked', data: { url, machine: isProgram(request.headers) } })
    }
    return await reply.code(302).header('location', target).send()
  })
}

/** As a browser would spell it, so that it fits a header; null for what is no address on the web. */
function webUrl (text: string): string | null {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) ? url.href : null
}
