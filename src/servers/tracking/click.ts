import type { FastifyInstance } from 'fastify'
import type { Services } from '#src/actions/services.ts'
import { errorPage } from './pages.ts'
import type { TokenPath } from './token.ts'
import { isProgram } from './visitor.ts'
import type { Visits } from './visits.ts'

/** GET /c/<token>. The target URL is in the token alone, under our MAC: nobody else can make us redirect anywhere. HEAD
 *  is answered and not counted. */
export function clickRoute (app: FastifyInstance, services: Services, visits: Visits): void {
  app.get<TokenPath>('/c/*', async (request, reply) => {
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

/** As a browser normalizes it, so that it fits a header; null when it is not an http or https URL. */
function webUrl (text: string): string | null {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) ? url.href : null
}
