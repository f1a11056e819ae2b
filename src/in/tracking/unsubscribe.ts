import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { domainOf } from '#streams/address.ts'
import { isErased } from '#streams/email/erase.ts'
import type { Desk } from '#src/actions/desk.ts'
import { addresseeOf, type Addressee } from '#src/actions/recipient.ts'
import { unsubscribe } from '#src/actions/unsubscribe.ts'
import { donePage, errorPage, FORM_FIELD, formPage, type Parties } from './pages.ts'
import { tokenOf, type Rest } from './token.ts'

type Body = Rest & { Body: Buffer | undefined }

/** GET /u/<token> asks and changes nothing, since scanners follow every link. POST unsubscribes, whoever sends whatever body: a mail program's button
 *  (RFC 8058) or the form of our page; said twice, happened once. Its 200 means that the log has it. */
export function unsubscribeRoutes (app: FastifyInstance, desk: Desk): void {
  app.get<Rest>('/u/*', async (request, reply) => {
    const addressee = await find(desk, request)
    return typeof addressee === 'number' ? await errorPage(reply, addressee) : await formPage(reply, partiesOf(addressee))
  })

  app.post<Body>('/u/*', async (request, reply): Promise<FastifyReply> => {
    const addressee = await find(desk, request)
    if (typeof addressee === 'number') return await errorPage(reply, addressee)
    await unsubscribe(desk, addressee, isOurForm(request.body) ? 'page' : 'one-click')
    return await donePage(reply, partiesOf(addressee))
  })
}

/** Who wants to unsubscribe; 404 when the token is not ours, 410 when nothing is known of its mail any more. Throws when NATS does not answer. */
async function find ({ tokens, ledger }: Desk, request: FastifyRequest<Rest>): Promise<Addressee | 404 | 410> {
  const pointer = tokens.read('unsubscribe', tokenOf(request))
  if (pointer === null) return 404
  const addressee = await addresseeOf(ledger, pointer)
  // Whose mail it was is forgotten: nothing can be promised to whoever this is.
  return addressee === null || isErased(addressee.request.fact.data.recipients[addressee.n]!.address) ? 410 : addressee
}

function isOurForm (body: Buffer | undefined): boolean {
  return body !== undefined && new URLSearchParams(body.toString('latin1')).get(FORM_FIELD.name) === FORM_FIELD.value
}

function partiesOf ({ request: { fact: { data } }, n }: Addressee): Parties {
  const { address: from } = data.from
  return { to: masked(data.recipients[n]!.address), from: domainOf(from) }
}

/** Enough to know one's own address by, whoever else the mail was forwarded to. */
function masked (address: string): string {
  const at = address.lastIndexOf('@')
  const [first = ''] = address.slice(0, at)
  return `${first}…${address.slice(at)}`
}
