import { Type, type TSchema } from '@sinclair/typebox'
import { entitiesOf, type Entities } from '#streams/directory.ts'
import type { Scope } from '#streams/key/facts.ts'
import type { Services } from '#src/actions/services.ts'
import type { Api } from '../context.ts'
import { seeAllWrites } from '../resource.ts'
import { listOf, pageOfAll, readResendPage, ResendListQuery } from './lists.ts'

/** An answer whose shape its route alone knows: nothing describes it. */
export const AnAnswer = Type.Unsafe<Record<string, unknown>>(Type.Any())

/** A field that may be left out, or null. */
export const Maybe = <Schema extends TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]))

type Kind = 'domain' | 'key' | 'webhook'

export interface ResendList<Name extends Kind> {
  kind: Name
  scope: Scope
  answerOf(entity: Entities[Name]): unknown
}

/** The list of the account's, in memory, newest first. */
export function resendList<Name extends Kind> (
  app: Api,
  services: Services,
  url: string,
  { kind, scope, answerOf }: ResendList<Name>
): void {
  app.get(url, {
    config: { scope },
    schema: { querystring: ResendListQuery },
    attachValidation: true
  }, async request => {
    const wanted = readResendPage(request)
    await seeAllWrites(services)
    const all = [...entitiesOf(services.directory.now, kind).values()]
    const own = all.filter(({ account }) => account === request.principal!.account)
    const { page, hasMore } = pageOfAll(own, wanted)
    return listOf(await Promise.all(page.map(answerOf)), hasMore)
  })
}
