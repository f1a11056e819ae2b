import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { Static, TSchema } from '@sinclair/typebox'
import type {
  ContextConfigDefault,
  FastifyRequest,
  FastifySchema,
  RawRequestDefaultExpression,
  RawServerDefault
} from 'fastify'
import type { FieldFault, Refusal } from '#streams/define.ts'
import { entitiesOf, type Entities, type Principal } from '#streams/directory.ts'
import type { Scope } from '#streams/key/facts.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import type { Services } from '#src/actions/services.ts'
import { created, refuseFaults, type Api } from './context.ts'
import { notFound, unavailable } from './errors.ts'
import { cursorParser, listAnswer, ListQuery, pageOf, readPage } from './pages.ts'
import { granted, IdParams } from './params.ts'

/** The body of an answer. */
type Body = Record<string, unknown> | null

/** A schema whose values are of type `T`. */
interface SchemaOf<T> extends TSchema {
  static: T
}

/** A request whose path and body have the types of `Schema`. */
type RequestOf<Schema extends FastifySchema> = FastifyRequest<
  { Reply: Body },
  RawServerDefault,
  RawRequestDefaultExpression,
  Schema,
  TypeBoxTypeProvider
>

/** A kind of the directory as the API serves it. */
export interface Resource<Kind extends keyof Entities, Answer extends Body> {
  kind: Kind
  tag: string
  scopes: { read: Scope, write: Scope }
  /** Whether a test key may change those that are test data. */
  testKeys?: true
  /** How its ids begin. */
  prefix: string
  schema: SchemaOf<Answer>
  answerOf(entity: Entities[Kind]): Answer | Promise<Answer>
}

type PathParams = Static<typeof IdParams>

/** How the description names an operation. */
type Naming = readonly [operationId: string, summary: string, description?: string]

/** What an action gives. `seq` is its last fact's in CONTROL: the answer waits until this node's directory has it. */
type Done = { seq?: number } & Record<string, unknown>

interface Write<Schema extends FastifySchema, Result extends Done, Answer extends Body> {
  /** Its first response is the usual one. */
  schema: Schema & { response: Record<number, SchemaOf<Answer>> }
  /** Statuses beyond those that all routes can answer, for the description. */
  errors: number[]
  /** What the schema cannot find: it is told together with what that has found. The body may be anything yet. */
  faults?: (request: FastifyRequest) => FieldFault[] | Promise<FieldFault[]>
  act(request: RequestOf<Schema>): Promise<Result | Refusal>
  /** The field whose fault a refusal is, by its code: it becomes a 422. */
  fieldOf?: Record<string, string>
  /** Path of what was made, when something was: the answer is then 201 with that Location. */
  location?: (result: Result) => string | null
  tell(result: Result): NoInfer<Answer> | Promise<NoInfer<Answer>>
}

/** The routes of what lives in the directory in memory, which catches up with the log before each read and each change.
 *  Paths stand whole where these are called: a test finds them there. */
export class ResourceRoutes<Kind extends keyof Entities, Item extends Body> {
  private readonly app: Api
  private readonly services: Services
  private readonly resource: Resource<Kind, Item>

  constructor (app: Api, services: Services, resource: Resource<Kind, Item>) {
    this.app = app
    this.services = services
    this.resource = resource
  }

  /** The account's, newest first, a page at a time. */
  list (url: string, [operationId, summary]: Naming): void {
    const { kind, tag, scopes, prefix, schema, answerOf } = this.resource
    this.app.get<{ Reply: Body }>(url, {
      config: { scope: scopes.read },
      schema: { operationId, summary, tags: [tag], querystring: ListQuery, response: { 200: listAnswer(schema) } },
      attachValidation: true
    }, async request => {
      const page = readPage(request, cursorParser(prefix))
      await seeAllWrites(this.services)
      const all = [...entitiesOf(this.services.directory.now, kind).values()]
      const own = all.filter(entity => isFor(entity, request.principal!))
      const { data, ...rest } = pageOf(own, page, async entity => await answerOf(entity))
      return { data: await Promise.all(data), ...rest }
    })
  }

  get (url: string, [operationId, summary]: Naming): void {
    const { tag, scopes, schema, answerOf } = this.resource
    this.app.get<{ Params: PathParams, Reply: Body }>(url, {
      config: { scope: scopes.read, errors: [404] },
      schema: { operationId, summary, tags: [tag], params: IdParams, response: { 200: schema } }
    }, async request => {
      await seeAllWrites(this.services)
      return await answerOf(this.own(request))
    })
  }

  /** Refuses what is wrong with the request, catches up with the log, acts, makes an answer of a refusal, and waits
   *  until this node sees the write. */
  write<const Schema extends FastifySchema, Result extends Done, Answer extends Body> (
    method: 'POST' | 'PATCH' | 'DELETE',
    url: string,
    [operationId, summary, description]: Naming,
    { schema, errors, faults, act, fieldOf, location, tell }: Write<Schema, Result, Answer>
  ): void {
    const { tag, scopes, testKeys } = this.resource
    const [usual] = Object.keys(schema.response)
    this.app.route<{ Reply: Body }, ContextConfigDefault, Schema>({
      method,
      url,
      config: { scope: scopes.write, errors, testKeys },
      schema: { operationId, summary, ...(description === undefined ? {} : { description }), tags: [tag], ...schema },
      attachValidation: true,
      handler: async (request, reply) => {
        refuseFaults(request, await faults?.(request))
        await seeAllWrites(this.services)
        const result = granted(await act(request), fieldOf)
        // It is stored, whether this node sees it in time or not: a 503 would ask for a second one. The next read waits
        // for it, or says 503.
        if (result.seq !== undefined) await this.services.directory.reached(result.seq, SEEN_MS)
        const path = location?.(result) ?? null
        const body = await tell(result)
        if (path !== null) created(reply, 201, path)
        else reply.statusCode = body === null ? 204 : Number(usual)
        return body
      }
    })
  }

  /** The account's with the id of the path; another account's is none. Throws 404. */
  own (
    { principal, params: { id } }: Pick<FastifyRequest<{ Params: PathParams }>, 'principal' | 'params'>
  ): Entities[Kind] {
    const entities = entitiesOf(this.services.directory.now, this.resource.kind)
    // Domains stand there by name.
    const isById = this.resource.kind !== 'domain'
    const entity = isById ? entities.get(id) : [...entities.values()].find(entity => entity.id === id)
    if (entity === undefined || !isFor(entity, principal!)) throw notFound()
    return entity
  }
}

/** Accounts are for operators, who may see them all; what is in one is for those who have a key of it. */
function isFor (entity: Entities[keyof Entities], { account }: Principal): boolean {
  return !('account' in entity) || entity.account === account
}

/** 503 when this node's directory stays behind the log: an older answer would deny a write. */
export async function seeAllWrites ({ directory }: Pick<Services, 'directory'>): Promise<void> {
  if (!await directory.catchUp(SEEN_MS)) {
    throw unavailable('projection_behind', 'This server is behind the log: try again.')
  }
}
