import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { RemoteFiles } from '#src/servers/api/resend/remote-files.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'

async function serve (t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

const file = (url: string) => ({ at: 0, url, filename: 'a.bin' })

t.test('a file at a private address is not fetched, however it is named', async t => {
  let asked = 0
  const host = await serve(t, (_request, response) => {
    asked++
    response.end('secret')
  })
  const app = await startTestApp(t, { env: { JETPOST_WEBHOOK_ALLOW_PRIVATE: 'false' } })
  const send = async (path: string) => {
    const body = { from: FROM, to: 'ada@example.com', subject: 'Hello', text: 'Hello', attachments: [{ path }] }
    return (await app.request('POST', '/resend/emails', { body })).body
  }
  const refused = (message: RegExp) => ({ statusCode: 422, name: 'invalid_attachment', message })
  t.match(
    await send(`http://${host}/`),
    refused(/^attachments\[0\]\.path must be a URL that starts with https:\/\/\.$/)
  )
  for (
    const name of [host, `localhost:${host.split(':')[1]}`, '[::1]', '169.254.169.254', '0x7f000001', 'a.internal']
  ) {
    t.match(await send(`https://${name}/`), refused(/path must be public/), name)
  }
  t.match(await send('https://user:password@example.com/'), refused(/path must be a URL/))
  const files = new RemoteFiles({
    mayCallPrivate: () => false,
    resolve: async () => [{ address: '127.0.0.1', family: 4 }]
  })
  t.teardown(() => files.close())
  await t.rejects(files.fetch('acc_1', [file(`https://public.example:${host.split(':')[1]}/`)]), {
    message: /^be public: public\.example has no address that may be called$/
  })
  t.equal(asked, 0)
})

t.test('private files are for the first account alone, where the operator allows them', async t => {
  const host = await serve(t, (_request, response) => void response.end('mine'))
  const app = await startTestApp(t, { targetsAsSet: true })
  const other = await app.newAccountKey()
  const send = async (key: string, from: string) => {
    const body = {
      from,
      to: 'ada@example.com',
      subject: 'Hello',
      text: 'Hello',
      attachments: [{ path: `http://${host}/a` }]
    }
    return (await app.request('POST', '/resend/emails', { body, key })).status
  }
  t.equal(await send(API_KEY, FROM), 200)
  await app.request('POST', '/resend/domains', { body: { name: 'other.example' }, key: other })
  t.equal(await send(other, 'a@other.example'), 422)
})

t.test('a server that is slow, or sends without end, holds nothing for long', async t => {
  const hanging = await serve(t, () => {})
  const dripping = await serve(t, (_request, response) => void response.write('a'))
  const endless = await serve(t, (_request, response) => {
    const piece = Buffer.alloc(1024 * 1024)
    const more = () => void response.write(piece, error => error == null && more())
    more()
  })
  const files = new RemoteFiles({ mayCallPrivate: () => true, timeoutMs: 500 })
  t.teardown(() => files.close())
  const slow = { message: 'answer within 10 seconds' }
  await t.rejects(files.fetch('acc_1', [file(`http://${hanging}/`)]), slow)
  await t.rejects(files.fetch('acc_1', [file(`http://${dripping}/`)]), slow)
  const patient = new RemoteFiles({ mayCallPrivate: () => true })
  t.teardown(() => patient.close())
  await t.rejects(patient.fetch('acc_1', [file(`http://${endless}/`)]), { message: /10 MB/ })
  await t.rejects(patient.fetch('acc_1', [file('http://127.0.0.1:1/')]), { message: 'name a file that can be fetched' })
})

t.test('so many emails of an account wait for their files, and no more', async t => {
  const open = Promise.withResolvers<void>()
  const host = await serve(t, (_request, response) => void open.promise.then(() => response.end('a')))
  const files = new RemoteFiles({ mayCallPrivate: () => true })
  t.teardown(() => files.close())
  const fetches = Array.from({ length: 12 }, () => files.fetch('acc_1', [file(`http://${host}/`)]))
  t.equal(await Promise.race(fetches), null, 'the last of them is told at once')
  open.resolve()
  const contents = await Promise.all(fetches)
  t.equal(contents.filter(content => content !== null).length, 11)
})
