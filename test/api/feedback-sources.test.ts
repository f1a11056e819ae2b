import t from 'tap'
import { jetpostHere } from '../support/command.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { MAILGUN_KEY, SENDGRID_KEY } from '../support/relay-reports.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { TOPIC } from '../support/sns.ts'
import { until } from '../support/wait.ts'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const ask = async (method: string, path: string, body?: unknown, key = API_KEY) =>
  await app.request(method, `/api/feedback-sources${path}`, { key, body })

t.test('a source is made, shown without its secrets, changed, given another URL and deleted', async t => {
  const made = await ask('POST', '', { provider: 'mailgun', name: 'Mailgun EU', verification_key: MAILGUN_KEY })
  t.match(made, {
    status: 201,
    body: {
      provider: 'mailgun',
      name: 'Mailgun EU',
      has_verification_key: true,
      only_account: null,
      url_rotation: null
    }
  })
  const { url, ...shown } = made.body
  t.match(url, new RegExp(`^http://localhost:\\d+/feedback/${shown.id}/[\\w-]{43}$`))
  t.equal(made.headers.get('location'), `/api/feedback-sources/${shown.id}`)
  t.strictSame((await ask('GET', `/${shown.id}`)).body, shown)
  t.strictSame((await ask('GET', '')).body.data, [shown])
  const changed = await ask('PATCH', `/${shown.id}`, { name: 'Mailgun US', verification_key: 'another' })
  t.strictSame(changed.body, { ...shown, name: 'Mailgun US' })
  const rotated = await ask('POST', `/${shown.id}/rotate`)
  t.not(rotated.body.url, url)
  t.match(rotated.body.url_rotation.previous_expires_at, /^\d{4}-/)
  t.equal((await ask('DELETE', `/${shown.id}`)).status, 204)
  t.equal((await ask('GET', `/${shown.id}`)).status, 404)
  const secrets = [MAILGUN_KEY, url.split('/').at(-1)]
  await until(async () =>
    (await app.request('GET', '/api/audit?limit=100')).body.data[0].action === 'feedback_source.deleted'
  )
  const audit = JSON.stringify((await app.request('GET', '/api/audit?limit=100')).body)
  for (const word of ['created', 'changed', 'secret_rotated', 'deleted']) t.match(audit, `feedback_source.${word}`)
  for (const secret of secrets) t.notMatch(audit, secret)
})

t.test('each provider takes what it verifies with, and nothing else', async t => {
  const mapping = { message_id: '/id', kind: '/kind', kinds: { bounce: 'failed' } }
  const right: object[] = [
    { provider: 'ses', topic_arn: TOPIC },
    { provider: 'sendgrid', verification_key: SENDGRID_KEY },
    { provider: 'postmark' },
    { provider: 'brevo' },
    { provider: 'generic', mapping }
  ]
  for (const body of right) t.equal((await ask('POST', '', { name: 'x', ...body })).status, 201, JSON.stringify(body))
  const wrong: Array<[object, string]> = [
    [{ provider: 'ses' }, 'topic_arn'],
    [{ provider: 'ses', topic_arn: 'arn:aws:sqs:eu-central-1:123456789012:queue' }, 'topic_arn'],
    [{ provider: 'postmark', topic_arn: TOPIC }, 'topic_arn'],
    [{ provider: 'mailgun' }, 'verification_key'],
    [{ provider: 'brevo', verification_key: 'x' }, 'verification_key'],
    [{ provider: 'sendgrid', verification_key: 'no key' }, 'verification_key'],
    [{ provider: 'generic' }, 'mapping'],
    [{ provider: 'postmark', mapping }, 'mapping'],
    [{ provider: 'postmark', only_account: 'acc_nobody' }, 'only_account'],
    [{ provider: 'sparkpost' }, 'provider'],
    [{ provider: 'postmark', name: ' ' }, 'name']
  ]
  for (const [body, field] of wrong) {
    const { status, body: { details } } = await ask('POST', '', { name: 'x', ...body })
    t.match({ status, details }, { status: 422, details: [{ field }] }, JSON.stringify(body))
  }
})

t.test('sources are for operators alone', async t => {
  const { secret } = await app.newKey({ scopes: ['webhooks:write', 'keys:write'] })
  const full = await app.newAccountKey()
  for (const key of [secret, full]) {
    for (
      const [method, path] of [['GET', ''], ['POST', ''], ['GET', '/fs_1'], ['POST', '/fs_1/rotate'], [
        'DELETE',
        '/fs_1'
      ]] as const
    ) {
      t.equal((await ask(method, path, method === 'POST' ? {} : undefined, key)).status, 403, `${method} ${path}`)
    }
  }
})

t.test('the shell makes, lists, changes, rotates and deletes them, too', async t => {
  const env = { NATS_URL: natsUrl, DATABASE_URL: databaseUrl, JETPOST_SECRET: SECRET, JETPOST_PUBLIC_URL: app.url }
  const shell = async (...args: string[]) => await jetpostHere(['feedback-sources', ...args], env)
  const keyFile = join(t.testdir({}), 'key')
  writeFileSync(keyFile, `${MAILGUN_KEY}\n`)
  const made = await shell('create', 'mailgun', '--name', 'From the shell', '--key-file', keyFile, '--json')
  t.equal(made.code, 0, made.err)
  const [{ id, url }] = JSON.parse(made.out)
  const post = async (to: string) => (await fetch(to, { method: 'POST', body: '{}' })).status
  await until(async () => await post(url) === 401)
  t.match(JSON.parse((await shell('--json')).out).find((row: { id: string }) => row.id === id), {
    provider: 'mailgun',
    name: 'From the shell'
  })
  t.match((await shell('change', id, '--name', 'Renamed')).out, 'Renamed')
  const [rotated] = JSON.parse((await shell('rotate', id, '--json')).out)
  await until(async () => await post(rotated.url) === 401)
  t.equal((await shell('delete', id)).code, 0)
  await until(async () => await post(rotated.url) === 404)
  t.match(await shell('create', 'sparkpost'), { code: 2, err: 'must be one of ses, mailgun' })
  t.match(await shell('create', 'mailgun'), { code: 2, err: 'verification_key must be the one of mailgun' })
  t.match(await shell('delete', 'fs_0'), { code: 1, err: 'There is no feedback source fs_0' })
})
