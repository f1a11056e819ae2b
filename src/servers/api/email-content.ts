import { Type } from '@sinclair/typebox'
import { Attachment } from '#projections/emails/records.ts'
import { Nullable } from '#streams/define.ts'
import { RECIPIENTS_MAX } from '#streams/email/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { readContent, readMessage, shownContent } from '#src/actions/email.ts'
import type { StoredRequest } from '#src/actions/stored-request.ts'
import type { Content } from '#src/content/compose.ts'
import { refuseFaults, type Api } from './context.ts'
import { findEmail } from './email-actions.ts'
import { gone, invalid, mustFault } from './errors.ts'
import { IdParams } from './params.ts'
import type { Reads } from '#src/postgres/reads.ts'

const ContentAnswer = Type.Object({
  id: Type.String(),
  subject: Type.String(),
  html: Nullable(Type.String()),
  text: Nullable(Type.String()),
  attachments: Type.Array(Attachment),
  alternatives: Type.Array(Type.Object({ content_type: Type.String(), content: Type.String() }))
}, {
  examples: [{
    id: 'em_01m7ysevjmwmdcr41jq5rymhkp',
    subject: 'Hello',
    html: '<p>Hello</p>',
    text: null,
    attachments: [{ filename: 'prices.csv', content_type: 'text/csv', content_id: null, size_bytes: 1204 }],
    alternatives: []
  }]
})
const RawQuery = Type.Object({
  recipient: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: RECIPIENTS_MAX - 1,
      description: 'Which recipient, counted from 0 in `recipients`: each gets a message of its own. 0 when left out.'
    })
  )
}, { additionalProperties: false })

/** The content of an email, read from the log for as long as it is kept there. */
export function contentRoutes (app: Api, services: Services, reads: Reads): void {
  const shared = { tags: ['Emails'], params: IdParams }

  app.get('/emails/:id/content', {
    config: { scope: 'emails:read', errors: [404] },
    schema: {
      ...shared,
      operationId: 'getEmailContent',
      summary: 'Get the bodies of an email and its list of attachments',
      response: { 200: ContentAnswer }
    }
  }, async request => {
    const { email, found, content } = await find(request)
    const { subject, attachments } = found.fact.data
    const files = attachments.map(({ filename, contentType, contentId, sizeBytes }) => ({
      filename,
      content_type: contentType,
      content_id: contentId,
      size_bytes: sizeBytes
    }))
    const { html, text, alternatives: others } = shownContent(found.fact.data, content)
    const alternatives = others.map(({ contentType, content }) => ({ content_type: contentType, content }))
    return { id: email, subject, html, text, attachments: files, alternatives }
  })

  app.get('/emails/:id/raw', {
    config: { scope: 'emails:read', errors: [404] },
    schema: {
      ...shared,
      operationId: 'getEmailRaw',
      summary: 'Get the message of a recipient',
      description: 'The RFC 5322 message. Keep it as safe as the mail itself: its links can unsubscribe the recipient.',
      querystring: RawQuery,
      produces: ['message/rfc822']
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request)
    const { found, content } = await find(request)
    const { recipient: n = 0 } = request.query
    if (n >= found.fact.data.recipients.length) {
      const { length } = found.fact.data.recipients
      throw invalid([mustFault('recipient', 'invalid_value', `be less than ${length}, the number of recipients`)])
    }
    const message = await readMessage(services, { request: found, n }, content)
    return await reply.type('message/rfc822').send(message)
  })

  async function find (
    request: Parameters<typeof findEmail>[2]
  ): Promise<{ email: string, found: StoredRequest, content: Content }> {
    const { email, found } = await findEmail(services, reads, request)
    const content = found === null ? null : await readContent(services.blobs, found.fact.data)
    if (found === null || content === null) throw gone()
    return { email, found, content }
  }
}
