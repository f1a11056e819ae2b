import { Type } from '@sinclair/typebox'
import type { Services } from '#src/actions/services.ts'
import type { Api } from './context.ts'
import { unauthorized } from './errors.ts'
import { keyAnswer, KeyAnswer, KEY_EXAMPLE } from './keys.ts'
import { seeAllWrites } from './resource.ts'

const MeAnswer = Type.Composite([
  KeyAnswer,
  Type.Object({ account: Type.Object({ id: Type.String(), name: Type.String() }) })
], {
  examples: [{ ...KEY_EXAMPLE, account: { id: 'acc_first', name: 'First account' } }]
})

/** For somebody who holds a key and nothing else: a 403 has no room to say what it may do. */
export function meRoute (app: Api, services: Services): void {
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
    const key = keys.get(request.key!.id)
    // It was revoked a moment ago, on another node.
    if (key === undefined) throw unauthorized()
    const { id, name } = accounts.get(key.account)!
    return { ...keyAnswer(key, services.factLog.clock.nowMs()), account: { id, name } }
  })
}
