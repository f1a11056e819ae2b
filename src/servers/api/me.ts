import { Type } from '@sinclair/typebox'
import { accountLimitOf } from '#streams/account/decide.ts'
import { Nullable } from '#streams/define.ts'
import { byLimitClass } from '#streams/key/facts.ts'
import type { Services } from '#src/actions/services.ts'
import type { Api } from './context.ts'
import { unauthorized } from './errors.ts'
import { keyAnswerOf, KeyAnswer, KEY_EXAMPLE } from './keys.ts'
import type { DailyQuota } from '#src/actions/quota.ts'
import { seeAllWrites } from './resource.ts'

const MeAnswer = Type.Composite([
  KeyAnswer,
  Type.Object({
    account: Type.Object({
      id: Type.String(),
      name: Type.String(),
      limits: Type.Object(byLimitClass(() => Nullable(Type.Integer())), {
        description: 'Requests a minute of all its keys together; null = any number.'
      }),
      recipients_per_day: Nullable(
        Type.Integer({ description: 'How many recipients its mail may have on a day (UTC); null = any number.' })
      ),
      recipients_today: Nullable(
        Type.Integer({ description: 'How many it has had today; null where there is no such limit.' })
      )
    })
  })
], {
  examples: [{
    ...KEY_EXAMPLE,
    account: {
      id: 'acc_first',
      name: 'First account',
      limits: byLimitClass(() => null),
      recipients_per_day: 50_000,
      recipients_today: 1204
    }
  }]
})

/** For somebody who holds a key and nothing else: a 403 has no room to say what it may do. */
export function meRoute (app: Api, services: Services, quota: DailyQuota): void {
  app.get('/me', {
    schema: {
      operationId: 'getMe',
      summary: 'Get the key that asks',
      description: 'Its scopes, domains, limits and end, and the account it belongs to.',
      tags: ['Keys'],
      response: { 200: MeAnswer }
    }
  }, async request => {
    await seeAllWrites(services)
    const { accounts, keys } = services.directory.now
    const key = keys.get(request.principal!.id)
    // It was revoked a moment ago, on another node.
    if (key === undefined) throw unauthorized()
    const account = accounts.get(key.account)!
    const { id, name } = account
    const limits = byLimitClass(limitClass => accountLimitOf(account, key, limitClass))
    return {
      ...await keyAnswerOf(services, key),
      account: {
        id,
        name,
        limits,
        recipients_per_day: account.recipientsPerDay,
        recipients_today: await quota.takenToday(id)
      }
    }
  })
}
