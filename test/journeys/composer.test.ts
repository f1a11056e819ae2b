import t from 'tap'
import { startTestApp } from '../support/app.ts'

const app = await startTestApp(t)
const signers = (raw: string): string[] =>
  [...raw.matchAll(/^DKIM-Signature: [^]*?\bs=([^;]+);/gm)].map(([, selector]) => selector!.replaceAll(/\s/g, ''))

async function rawOf (
  fields: Record<string, unknown>,
  key?: string
): Promise<{ id: string, read: () => Promise<string> }> {
  const { body } = await app.send({
    from: 'a@victim.example',
    scheduled_at: new Date(Date.now() + 3_600_000).toISOString(),
    ...fields
  }, key)
  return { id: body.id, read: async () => (await app.request('GET', `/api/emails/${body.id}/raw`, { key })).body }
}

t.test("mail is signed with both keys of its domain, while the domain is the account's", async t => {
  const { body: domain } = await app.request('POST', '/api/domains', { body: { name: 'victim.example' } })
  const { read } = await rawOf({})
  t.strictSame(signers(await read()).length, 2)
  await app.request('DELETE', `/api/domains/${domain.id}`)
  const other = await app.newAccountKey()
  t.equal((await app.request('POST', '/api/domains', { key: other, body: { name: 'victim.example' } })).status, 201)
  t.strictSame(signers(await read()), [], "another's keys do not vouch for it")
})

t.test('the mail of a test key is not signed: it leaves the app for nobody', async t => {
  await app.request('POST', '/api/domains', { body: { name: 'rehearsed.example' } })
  const { secret } = await app.newKey({ test: true })
  const { read } = await rawOf({ from: 'a@rehearsed.example' }, secret)
  t.strictSame(signers(await read()), [])
})
