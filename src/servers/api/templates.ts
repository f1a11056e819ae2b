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
import { AnyName, type FieldFault, type Refusal } from '#streams/define.ts'
import { InvalidTemplate } from '#streams/template/decide.ts'
import type { Services } from '#src/actions/services.ts'
import { isTemplateId } from '#src/actions/template-cache.ts'
import {
  changeTemplate,
  createTemplate,
  deleteTemplate,
  templateFaults,
  type SavedTemplate
} from '#src/actions/template.ts'
import { layoutOf, readMail, renderMail } from '#src/content/mustache-mail.ts'
import { MustacheError } from '#src/content/mustache.ts'
import { fillMail, unknownFaults, WARNING_CODES } from '#src/content/template-variables.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { isUnavailable } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { created, refuseFaults, schemaFaults, type Api } from './context.ts'
import { FaultList, invalid, notFound } from './errors.ts'
import { ListQuery, readPage } from './pages.ts'
import { askerOf, granted, IdParams, orNothing } from './params.ts'
import { bodyOf, ChangeRequest, CreateRequest, missingBody, newBodyOf, soundFields } from './template-fields.ts'

const VERSION_MAX = 999_999_999

const VersionQuery = Type.Object({
  version: Type.Optional(
    Type.Integer({ minimum: 1, maximum: VERSION_MAX, description: 'Which version. The newest when left out.' })
  )
}, { additionalProperties: false })

const PreviewRequest = orNothing(
  Type.Object({
    variables: Type.Optional(
      Type.Record(AnyName, Type.Unknown(), { description: 'The values that fill the template, by name.' })
    ),
    version: Type.Optional(
      Type.Integer({ minimum: 1, maximum: VERSION_MAX, description: 'Which version. The newest when left out.' })
    )
  }, { additionalProperties: false }),
  [{ variables: { order: '1042', items: [{ title: 'Ink', price: '3.10' }] } }]
)

const TextOrNull = Type.Union([Type.String(), Type.Null()])
const PreviewAnswer = Type.Object({
  version: Type.Integer(),
  subject: TextOrNull,
  html: TextOrNull,
  text: TextOrNull,
  /** Names that are required or used, and were not given; `>` before a partial. */
  missing: Type.Array(Type.String()),
  /** Names that were given, and are neither declared nor used. An email with them is refused. */
  unknown: Type.Array(Type.String())
}, {
  examples: [{
    version: 1,
    subject: 'Your order 1042',
    html: '<p>Hello there,</p><ul><li>Ink: 3.10</li></ul>',
    text: null,
    missing: [],
    unknown: []
  }]
})
const MISSING_MAX = 1000

/** A version as it was saved, with what looks like a mistake in it. */
const SavedTemplateRecord = Type.Object({
  ...TemplateRecord.properties,
  warnings: Type.Array(
    Type.Object({
      field: Type.String(),
      code: Type.Union(WARNING_CODES.map(code => Type.Literal(code))),
      message: Type.String()
    }),
    { description: 'What looks like a mistake, such as a variable that is not declared. The template is saved.' }
  )
}, { examples: TemplateRecord.examples!.map((record: object) => ({ ...record, warnings: [] })) })

const shared = { tags: ['Templates'], params: IdParams }

export function templateRoutes (app: Api, services: Services, reads: Reads): void {
  createRoute(app, services, reads)
  changeRoutes(app, services, reads)
  readRoutes(app, reads)
  versionRoutes(app, reads)
  previewRoute(app, reads)
}

function createRoute (app: Api, services: Services, reads: Reads): void {
  app.post('/templates', {
    config: { scope: 'templates:write', errors: [409] },
    schema: {
      operationId: 'createTemplate',
      summary: 'Create a template',
      description: 'Mustache (github.com/mustache/spec 1.4, the core modules) in subject, html and text; {{name}} is ' +
        'escaped in html. `warnings` names variables that are used and not declared, or declared and not used. An ' +
        'account has at most 10,000 templates.',
      tags: ['Templates'],
      body: CreateRequest,
      response: { 201: SavedTemplateRecord }
    },
    attachValidation: true
  }, async (request, reply) => {
    await refuseFaulty(services, request, missingBody(request.body))
    const count = await countOf(reads, request.principal!.account)
    const made = allGranted(await createTemplate(services, askerOf(request), newBodyOf(request.body), count))
    created(reply, 201, `/api/templates/${made.id}`)
    return answerOf(made)
  })
}

function changeRoutes (app: Api, services: Services, reads: Reads): void {
  app.patch('/templates/:id', {
    config: { scope: 'templates:write', errors: [404, 409] },
    schema: {
      operationId: 'updateTemplate',
      summary: 'Make the next version of a template',
      description: 'Versions never change. There is no new one when nothing differs from the one before.',
      ...shared,
      body: ChangeRequest,
      response: { 200: SavedTemplateRecord }
    },
    attachValidation: true
  }, async request => {
    await refuseFaulty(services, request)
    const { params: { id }, body } = request
    return answerOf(
      allGranted(
        await changeTemplate(
          services,
          askerOf(request),
          id,
          bodyOf(body),
          isUsed(reads, request.principal!.account, id)
        )
      )
    )
  })

  app.delete('/templates/:id', {
    config: { scope: 'templates:write', errors: [404, 409] },
    schema: {
      operationId: 'deleteTemplate',
      summary: 'Delete a template',
      description: 'Mail that names it is refused from then on. A template that others use as their layout stays: 409' +
        ' `template_in_use`.',
      ...shared,
      response: { 204: Type.Null() }
    }
  }, async (request, reply) => {
    const { id } = request.params
    granted(await deleteTemplate(services, askerOf(request), id, isUsed(reads, request.principal!.account, id)))
    return reply.code(204).send(null)
  })
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
    const page = readPage(request, parseTemplateCursor)
    return await answerFrom(
      reads,
      request.principal!.account,
      templates,
      listTemplates({ account: request.principal!.account, ...page })
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
    const { principal, params: { id }, query: { version = null } } = request
    return await find(reads, principal!.account, id, version)
  })
}

function versionRoutes (app: Api, reads: Reads): void {
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
    const versions = await answerFrom(
      reads,
      request.principal!.account,
      templates,
      listVersions({ account: request.principal!.account, id, ...page })
    )
    if (versions === null) throw notFound()
    return versions
  })
}

function previewRoute (app: Api, reads: Reads): void {
  app.post('/templates/:id/preview', {
    config: { scope: 'templates:read', errors: [404] },
    schema: {
      operationId: 'previewTemplate',
      summary: 'Render a template, sending nothing',
      description: 'Renders it in its layout. Variables that are not given are listed as missing and left empty. ' +
        'Those that the template does not have are listed as unknown.',
      ...shared,
      body: PreviewRequest,
      response: { 200: PreviewAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    const { account } = request.principal!
    const { version = null, variables = {} } = request.body ?? {}
    const template = await find(reads, account, request.params.id, version)
    const layout = template.layout_id === null
      ? null
      : await answerFrom(reads, account, templates, getTemplate({ account, id: template.layout_id, version: null }))
    return preview(template, layout, variables)
  })
}

/** Throws 404 when the account has no such version of a template. */
async function find (reads: Reads, account: string, id: string, version: number | null): Promise<TemplateRecord> {
  const template = isTemplateId(id)
    ? await answerFrom(reads, account, templates, getTemplate({ account, id, version }))
    : null
  if (template === null) throw notFound()
  return template
}

/** When the schema found faults: throws them, with those of the other fields and `more`. Else the action checks all
 *  fields. */
async function refuseFaulty (services: Services, request: FastifyRequest, more: FieldFault[] = []): Promise<void> {
  const found = schemaFaults(request)
  if (found.length === 0) return
  const others = await templateFaults(services, request.principal!.account, bodyOf(soundFields(request.body)))
  const faults = new FaultList(found)
  for (const fault of [...more, ...others]) faults.add(fault)
  throw invalid(faults.all)
}

/** The limit need not be exact, and making a template does not wait for PostgreSQL: while it is away, 0. */
async function countOf ({ pool }: Reads, account: string): Promise<number> {
  return await ask(pool, countTemplates(account)).catch(error => {
    if (isUnavailable(error)) return 0
    throw error
  })
}

function isUsed (reads: Reads, account: string, id: string): () => Promise<boolean> {
  return () => answerFrom(reads, account, templates, isLayoutInUse(id))
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
    const unknown = unknownFaults(mail, around, given).map(({ name }) => name)
    return { version: template.version, ...parts, missing: [...missing], unknown }
  } catch (error) {
    if (error instanceof MustacheError) {
      const message = `body must let the template render. ${error.message}`
      throw invalid([{ field: 'body', code: 'template_failed', message }])
    }
    throw error
  }
}

/** As `granted`, for a refusal that names all its faults. */
function allGranted<T> (result: T | Refusal): T {
  if (result instanceof InvalidTemplate) throw invalid(result.faults)
  return granted(result)
}

function answerOf (
  { id, version, name, subject, html, text, variables, layout, createdAt, updatedAt, warnings }: SavedTemplate
): Static<typeof SavedTemplateRecord> {
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
    variables,
    warnings
  }
}
