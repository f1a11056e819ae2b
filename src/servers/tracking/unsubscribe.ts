import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { domainOf } from '#streams/address.ts'
import { isErased } from '#streams/email/erase.ts'
import type { Services } from '#src/actions/services.ts'
import { recipientRefOf, type RecipientRef } from '#src/actions/recipient.ts'
import { unsubscribe } from '#src/actions/unsubscribe.ts'
import { donePage, errorPage, FORM_FIELD, formPage, type Parties } from './pages.ts'
import { tokenOf, type TokenPath } from './visits.ts'

type UnsubscribeRoute = TokenPath & { Body: Buffer | undefined }

/** GET /u/<token> shows a form and changes nothing, since scanners follow every link. POST unsubscribes, whatever its
 *  body: a mail program's button (RFC 8058) or our form. Safe to repeat. Its 200 means that the log has it. */
export function unsubscribeRoutes (app: FastifyInstance, services: Services): void {
  app.get<TokenPath>('/u/*', async (request, reply) => {
    const ref = await findRecipient(services, request)
    return typeof ref === 'number' ? await errorPage(reply, ref) : await formPage(reply, partiesOf(ref))
  })

  app.post<UnsubscribeRoute>('/u/*', async (request, reply): Promise<FastifyReply> => {
    const ref = await findRecipient(services, request)
    if (typeof ref === 'number') return await errorPage(reply, ref)
    await unsubscribe(services, ref, isOurForm(request.body) ? 'page' : 'one-click')
    return await donePage(reply, partiesOf(ref))
  })
}

/** The recipient who unsubscribes; 404 when the token is not ours, 410 when its mail is no longer on record. Throws
 *  when NATS does not answer. */
async function findRecipient (
  { tokens, factLog }: Services,
  request: FastifyRequest<TokenPath>
): Promise<RecipientRef | 404 | 410> {
  const pointer = tokens.read('unsubscribe', tokenOf(request))
  if (pointer === null) return 404
  const ref = await recipientRefOf(factLog, pointer)
  // The recipient was erased: their address is unknown.
  return ref === null || isErased(ref.request.fact.data.recipients[ref.n]!.address) ? 410 : ref
}

function isOurForm (body: Buffer | undefined): boolean {
  return body !== undefined && new URLSearchParams(body.toString('latin1')).get(FORM_FIELD.name) === FORM_FIELD.value
}

function partiesOf ({ request: { fact: { data } }, n }: RecipientRef): Parties {
  const { address: from } = data.from
  return { to: masked(data.recipients[n]!.address), from: domainOf(from) }
}

/** Enough to recognize one's own address, and no more for those the mail was forwarded to. */
function masked (address: string): string {
  const at = address.lastIndexOf('@')
  const [first = ''] = address.slice(0, at)
  return `${first}…${address.slice(at)}`
}
