import type { FastifyInstance } from 'fastify'
import type { Services } from '#src/actions/services.ts'
import { tokenOf, type TokenPath } from './token.ts'
import { isProgram } from './visitor.ts'
import type { Visits } from './visits.ts'

/** One transparent pixel (GIF89a, 43 bytes): a screen of 1 × 1 with two colours, the first transparent, and one image
 *  of one pixel. */
const PIXEL = Buffer.from(
  [
    '474946383961',
    '0100',
    '0100',
    '800000',
    'ffffff000000',
    '21f90401000000',
    '00',
    '2c0000000001000100',
    '00',
    '0202440100',
    '3b'
  ].join(''),
  'hex'
)

/** GET /o/<token>.gif. The answer is always the same: it does not reveal which tokens are ours. */
export function openRoute (app: FastifyInstance, services: Services, visits: Visits): void {
  app.get<TokenPath>('/o/*', async (request, reply) => {
    const pointer = request.method === 'HEAD' ? null : services.tokens.read('open', tokenOf(request))
    if (pointer !== null) {
      await visits.record(pointer, { type: 'email.opened', data: { machine: isProgram(request.headers) } })
    }
    // Web mail that isolates its origin may still load it.
    return await reply.header('cross-origin-resource-policy', 'cross-origin').type('image/gif').send(PIXEL)
  })
}
