import { connect } from 'nats'
import { Client } from 'pg'
import t from 'tap'
import { freshAccount, freshDatabase } from './servers.ts'

t.test('two apps use the same stream names and do not see each other', async t => {
  for (const url of [new URL(freshAccount().natsUrl), new URL(freshAccount().natsUrl)]) {
    const nc = await connect({ servers: url.host, user: url.username, pass: url.password })
    const manager = await nc.jetstreamManager()
    const { state } = await manager.streams.add({ name: 'EMAILS', subjects: ['email.>'] })
    t.equal(state.messages, 0)
    await nc.jetstream().publish('email.x')
    await nc.close()
  }
})

t.test("a database of one's own is gone after the test", async t => {
  let url = ''
  await t.test('while it lasts', async t => {
    url = await freshDatabase(t)
    t.equal(await selectOne(url), 1)
  })
  await t.rejects(selectOne(url), { code: '3D000' })
})

async function selectOne (url: string): Promise<number> {
  const client = new Client({ connectionString: url })
  try {
    await client.connect()
    return (await client.query<{ one: number }>('select 1 as one')).rows[0]!.one
  } finally {
    await client.end()
  }
}
