import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { templates } from '#projections/templates/project.ts'
import {
  countTemplates,
  getTemplate,
  isLayoutInUse,
  listTemplates,
  listVersions,
  parseTemplateCursor,
  parseVersionCursor,
  TemplatePage,
  TemplateRecord,
  VersionPage
} from '#projections/templates/queries.ts'
import { AnyName, type Refusal } from '#streams/define.ts'
import { InvalidTemplate } from '#streams/template/decide.ts'
import type { Services } from '#src/actions/services.ts'
import { isTemplateId } from '#src/actions/template-cache.ts'
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  templateFaults,
  type StoredTemplate
} from '#src/actions/template.ts'
import { fillMail, layoutOf, readMail, renderMail } from '#src/content/mustache-mail.ts'
import { MustacheError } from '#src/content/mustache.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { isUnavailable } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { created, refuseFaults, schemaFaults, type Api } from './context.ts'
import { invalid, notFound, type Fault } from './errors.ts'
import { ListQuery, readPage } from './pages.ts'
import { askerOf, granted, IdParams, orNothing } from './params.ts'
import { bodyOf, ChangeRequest, CreateRequest, missingBody, newBodyOf, soundFields } from './template-fields.ts'

const VERSION = '^[1-9][0-9]{0,8}$'
const VersionQuery = Type.Object({
  version: Type.Optional(
    Type.String({ pattern: VERSION, description: 'version is a whole number from 1; left out, the newest.' })
  )
}, { additionalProperties: false })

const PreviewRequest = orNothing(
  Type.Object({
    variables: Type.Optional(
      Type.Record(AnyName, Type.Unknown(), {
        description: 'variables is an object of what the template is filled with.'
      })
    ),
    version: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 999_999_999,
        description: 'version is a whole number from 1; left out, the newest.'
      })
    )
  }, { additionalProperties: false, description: 'The body is a JSON object.' }),
  [{ variables: { order: '1042', items: [{ title: 'Ink', price: '3.10' }] } }]
)

const TextOrNull = Type.Union([Type.String(), Type.Null()])
const PreviewAnswer = Type.Object({
  version: Type.Integer(),
  subject: TextOrNull,
  html: TextOrNull,
  text: TextOrNull,
  /** What is required, or to be put in somewhere, and was not given; with `>` before it a partial. */
  missing: Type.Array(Type.String())
}, {
  examples: [{
    version: 1,
    subject: 'Your order 1042',
    html: '<p>Hello there,</p><ul><li>Ink: 3.10</li></ul>',
    text: null,
    missing: []
  }]
})
const MISSING_MAX = 1000

const shared = { tags: ['Templates'], params: IdParams }

export function templateRoutes (app: Api, services: Services, reads: Reads): void {
  app.post('/templates', {
    config: { scope: 'templates:write', errors: [409] },
    schema: {
      operationId: 'createTemplate',
      summary: 'Create a template',
      description:
        'Mustache (github.com/mustache/spec 1.4, the core modules) in subject, html and text; {{name}} is escaped in html. An account has at most 10,000 templates.',
      tags: ['Templates'],
      body: CreateRequest,
      response: { 201: TemplateRecord }
    },
    attachValidation: true
  }, async (request, reply) => {
    await refuseFaulty(services, request, missingBody(request.body))
    const made = allGranted(
      await createTemplate(
        services,
        askerOf(request),
        newBodyOf(request.body),
        await countOf(reads, request.key!.account)
      )
    )
    created(reply, 201, `/api/templates/${made.id}`)
    return answerOf(made)
  })

  app.patch('/templates/:id', {
    config: { scope: 'templates:write', errors: [404, 409] },
    schema: {
      operationId: 'updateTemplate',
      summary: 'Make the next version of a template',
      description: 'Versions never change. When nothing is another than before there is no new one.',
      ...shared,
      body: ChangeRequest,
      response: { 200: TemplateRecord }
    },
    attachValidation: true
  }, async request => {
    await refuseFaulty(services, request)
    return answerOf(
      allGranted(
        await changeTemplate(
          services,
          askerOf(request),
          request.params.id,
          bodyOf(request.body),
          isUsed(reads, request.params.id)
        )
      )
    )
  })

  app.delete('/templates/:id', {
    config: { scope: 'templates:write', errors: [404, 409] },
    schema: {
      operationId: 'deleteTemplate',
      summary: 'Delete a template',
      description:
        'Mail that names it is refused from then on. A template that is the layout of others stays: 409 `template_in_use`.',
      ...shared,
      response: { 204: Type.Null() }
    }
  }, async (request, reply) => {
    granted(await deleteTemplate(services, askerOf(request), request.params.id, isUsed(reads, request.params.id)))
    return reply.code(204).send(null)
  })

  readRoutes(app, reads)
}

function readRoutes (app: Api, reads: Reads): void {
  app.get('/templates', {
    config: { scope: 'templates:read' },
    schema: {
      operationId: 'listTemplates',
      summary: 'List templates',
      tags: ['Templates'],
      querystring: ListQuery,
      response: { 200: TemplatePage }
    },
    attachValidation: true
  }, async request => {
    return await answerFrom(
      reads,
      templates,
      listTemplates({ account: request.key!.account, ...readPage(request, parseTemplateCursor) })
    )
  })

  app.get('/templates/:id', {
    config: { scope: 'templates:read', errors: [404] },
    schema: {
      operationId: 'getTemplate',
      summary: 'Get a template, or one of its versions',
      ...shared,
      querystring: VersionQuery,
      response: { 200: TemplateRecord }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    const { version } = request.query
    return await find(reads, request.key!.account, request.params.id, version === undefined ? null : Number(version))
  })

  app.get('/templates/:id/versions', {
    config: { scope: 'templates:read', errors: [404] },
    schema: {
      operationId: 'listTemplateVersions',
      summary: 'List the versions of a template',
      ...shared,
      querystring: ListQuery,
      response: { 200: VersionPage }
    },
    attachValidation: true
  }, async request => {
    const page = readPage(request, parseVersionCursor)
    const { id } = request.params
    if (!isTemplateId(id)) throw notFound()
    const versions = await answerFrom(reads, templates, listVersions({ account: request.key!.account, id, ...page }))
    if (versions === null) throw notFound()
    return versions
  })

  app.post('/templates/:id/preview', {
    config: { scope: 'templates:read', errors: [404] },
    schema: {
      operationId: 'previewTemplate',
      summary: 'Render a template, sending nothing',
      description: 'In its layout, as it is now. What was not given is listed as missing and left empty.',
      ...shared,
      body: PreviewRequest,
      response: { 200: PreviewAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    const { account } = request.key!
    const { version = null, variables = {} } = request.body ?? {}
    const template = await find(reads, account, request.params.id, version)
    const layout = template.layout_id === null
      ? null
      : await answerFrom(reads, templates, getTemplate({ account, id: template.layout_id, version: null }))
    return preview(template, layout, variables)
  })
}

/** Throws 404 when the account has no such version of a template. */
async function find (reads: Reads, account: string, id: string, version: number | null): Promise<TemplateRecord> {
  const template = isTemplateId(id) ? await answerFrom(reads, templates, getTemplate({ account, id, version })) : null
  if (template === null) throw notFound()
  return template
}

/** When the schema found faults: throws them, with those of the other fields and `more`. Else it is left to the action,
 *  which looks at all of them. */
async function refuseFaulty (services: Services, request: FastifyRequest, more: Fault[] = []): Promise<void> {
  const faults = schemaFaults(request)
  if (faults.length === 0) return
  const others = [...more, ...await templateFaults(services, request.key!.account, bodyOf(soundFields(request.body)))]
  throw invalid([...faults, ...others.filter(({ field }) => !faults.some(fault => fault.field === field))])
}

/** A bound need not be exact, and making a template does not wait for PostgreSQL: while it is away they are not
 *  counted. */
async function countOf ({ pool }: Reads, account: string): Promise<number> {
  return await ask(pool, countTemplates(account)).catch(error => {
    if (isUnavailable(error)) return 0
    throw error
  })
}

function isUsed (reads: Reads, id: string): () => Promise<boolean> {
  return () => answerFrom(reads, templates, isLayoutInUse(id))
}

function preview (
  template: TemplateRecord,
  layout: TemplateRecord | null,
  given: Record<string, unknown>
): Static<typeof PreviewAnswer> {
  try {
    const mail = readMail(template)
    const around = layoutOf(template.layout_id, layout === null ? null : readMail(layout))
    const { variables, faults } = fillMail(mail, around, given)
    const wrong = faults.filter(fault => fault.code !== 'missing_variable')
    if (wrong.length > 0) {
      throw invalid(wrong.map(({ name, code, message }) => ({ field: `variables.${name}`, code, message })))
    }
    const missing = new Set(faults.map(({ name }) => name))
    const parts = renderMail(mail, around, variables, {
      onMiss: name => {
        if (missing.size < MISSING_MAX) missing.add(name)
      }
    })
    return { version: template.version, ...parts, missing: [...missing] }
  } catch (error) {
    if (error instanceof MustacheError) {
      throw invalid([{ field: 'body', code: 'template_failed', message: error.message }])
    }
    throw error
  }
}

/** As `granted`, for what names all its faults. */
function allGranted<T> (result: T | Refusal): T {
  if (result instanceof InvalidTemplate) throw invalid(result.faults)
  return granted(result)
}

function answerOf (
  { id, version, name, subject, html, text, variables, layout, createdAt, updatedAt }: StoredTemplate
): TemplateRecord {
  return {
    id,
    version,
    name,
    subject,
    layout_id: layout,
    created_at: createdAt,
    updated_at: updatedAt,
    html,
    text,
    variables
  }
}
