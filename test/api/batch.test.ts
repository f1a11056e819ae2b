import t from 'tap'
import { startTestApp, FROM } from '../support/app.ts'

const app = await startTestApp(t)
const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', html: '<p>Hello</p>' }
const post = (body: unknown, key?: string) =>
  app.request('POST', '/api/emails/batch', { body, ...(key === undefined ? {} : { key }) })
const count = async (tag: string) => (await app.request('GET', `/api/emails?tag=${tag}&limit=100`)).body.data.length

t.test('a batch is accepted as a whole, in its order', async t => {
  const emails = Array.from(
    { length: 100 },
    (_, i) => ({ ...mail, to: `a${i}@example.com`, subject: `Number ${i}`, tags: ['hundred'] })
  )
  const { status, body } = await post({ emails })
  t.equal(status, 202)
  t.equal(body.data.length, 100)
  t.match(body.data[0], { id: /^em_/, email_id: body.data[0].id, status: 'queued', created_at: String })
  const listed = (await app.request('GET', '/api/emails?tag=hundred&limit=100')).body.data
  const subjects = new Map(listed.map((one: { id: string, subject: string }) => [one.id, one.subject]))
  t.strictSame(body.data.map(({ id }: { id: string }) => subjects.get(id)), emails.map(({ subject }) => subject))
  await app.settled(body.data[99].id, 'delivered')
})

t.test('strict: one fault and none is accepted; all faults of all emails are named', async t => {
  const tag = { tags: ['strict'] }
  const { status, body } = await post({
    emails: [{ ...mail, ...tag }, { ...mail, ...tag, to: 'nobody', subjct: 'x' }, { ...mail, ...tag, subject: '' }]
  })
  t.equal(status, 422)
  t.strictSame(body.details.map(({ field, code }: { field: string, code: string }) => `${field} ${code}`).sort(), [
    'emails[1].subjct unknown_field',
    'emails[1].to invalid_address',
    'emails[2].subject too_short'
  ])
  t.equal(
    (await post({ emails: [{ ...mail, ...tag }, { ...mail, ...tag, from: 'a@not-linked.example' }] })).status,
    403
  )
  t.equal(await count('strict'), 0)
})

t.test('permissive: those without fault are accepted, the others answered in their place', async t => {
  const tag = { tags: ['permissive'] }
  const emails = [{ ...mail, ...tag }, { ...mail, to: 'nobody' }, 7, { ...mail, from: 'a@not-linked.example' }, {
    ...mail,
    ...tag
  }]
  const { status, body } = await post({ emails, mode: 'permissive' })
  t.equal(status, 202)
  t.match(body.data, [
    { status: 'queued' },
    { error: 'Validation failed', code: 'validation_failed', details: [{ field: 'to', code: 'invalid_address' }] },
    { error: 'Validation failed', details: [{ field: 'body' }] },
    { error: 'Insufficient API key permissions' },
    { status: 'queued' }
  ])
  t.equal(await count('permissive'), 2)
  t.equal((await post({ emails: [{ ...mail, to: 'nobody' }], mode: 'permissive' })).status, 422, 'nothing to accept')
})

t.test('a batch is a list of 1 to 100 emails', async t => {
  for (
    const [body, field] of [
      [{}, 'emails'],
      [{ emails: [] }, 'emails'],
      [{ emails: Array(101).fill(mail) }, 'emails'],
      [{ emails: [mail], mode: 'lax' }, 'mode'],
      [{ emails: [mail], extra: 1 }, 'extra'],
      [[mail], 'body'],
      [{ emails: 'x' }, 'emails']
    ] as const
  ) {
    t.match(await post(body), { status: 422, body: { details: [{ field }] } }, JSON.stringify(body).slice(0, 60))
  }
})

t.test('a batch needs the scope to send', async t => {
  const { secret } = await app.newKey({ scopes: ['emails:read'] })
  t.equal((await post({ emails: [mail] }, secret)).status, 403)
})

t.test('templates make no more of a batch than of a few emails', async t => {
  const made = await app.request('POST', '/api/templates', {
    body: {
      name: 'much of little',
      subject: 's',
      text: '{{#l}}{{#l}}x{{/l}}{{/l}}',
      variables: [{ name: 'l', type: 'list', fallback: Array(1000).fill(1) }]
    }
  })
  t.equal(made.status, 201)
  const emails = Array.from({ length: 100 }, () => ({ from: FROM, to: 'ada@example.com', template_id: made.body.id }))
  const { status, body } = await post({ emails })
  t.match({ status, body }, { status: 422, body: { details: [{ code: 'template_failed' }] } })
  t.equal((await app.request('GET', `/api/emails?template_id=${made.body.id}`)).body.data.length, 0)
})
