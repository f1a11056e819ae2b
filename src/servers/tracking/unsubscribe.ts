import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { domainOf } from '#streams/address.ts'
import { isErased } from '#streams/email/erase.ts'
import type { Services } from '#src/actions/services.ts'
import { recipientRefOf, type RecipientRef } from '#src/actions/recipient.ts'
import { unsubscribe } from '#src/actions/unsubscribe.ts'
import { donePage, errorPage, FORM_FIELD, formPage, type Parties } from './pages.ts'
import { tokenOf, type Rest } from './token.ts'

type Body = Rest & { Body: Buffer | undefined }

/** GET /u/<token> asks and changes nothing, since scanners follow every link. POST unsubscribes, whoever sends whatever
 *  body: a mail program's button (RFC 8058) or the form of our page; said twice, happened once. Its 200 means that the
 *  log has it. */
export function unsubscribeRoutes (app: FastifyInstance, services: Services): void {
  app.get<Rest>('/u/*', async (request, reply) => {
    const ref = await find(services, request)
    return typeof ref === 'number' ? await errorPage(reply, ref) : await formPage(reply, partiesOf(ref))
  })

  app.post<Body>('/u/*', async (request, reply): Promise<FastifyReply> => {
    const ref = await find(services, request)
    if (typeof ref === 'number') return await errorPage(reply, ref)
    await unsubscribe(services, ref, isOurForm(request.body) ? 'page' : 'one-click')
    return await donePage(reply, partiesOf(ref))
  })
}

/** Who wants to unsubscribe; 404 when the token is not ours, 410 when nothing is known of its mail any more. Throws
 *  when NATS does not answer. */
async function find (
  { tokens, appenders }: Services,
  request: FastifyRequest<Rest>
): Promise<RecipientRef | 404 | 410> {
  const pointer = tokens.read('unsubscribe', tokenOf(request))
  if (pointer === null) return 404
  const ref = await recipientRefOf(appenders, pointer)
  // Whose mail it was is forgotten: nothing can be promised to whoever this is.
  return ref === null || isErased(ref.request.fact.data.recipients[ref.n]!.address) ? 410 : ref
}

function isOurForm (body: Buffer | undefined): boolean {
  return body !== undefined && new URLSearchParams(body.toString('latin1')).get(FORM_FIELD.name) === FORM_FIELD.value
}

function partiesOf ({ request: { fact: { data } }, n }: RecipientRef): Parties {
  const { address: from } = data.from
  return { to: masked(data.recipients[n]!.address), from: domainOf(from) }
}

/** Enough to know one's own address by, whoever else the mail was forwarded to. */
function masked (address: string): string {
  const at = address.lastIndexOf('@')
  const [first = ''] = address.slice(0, at)
  return `${first}…${address.slice(at)}`
}
