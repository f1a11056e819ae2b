// Run: JETPOST_WEBHOOK_SECRET=whsec_… PORT=3000 node node.mjs, behind a proxy that terminates TLS.
// `seen` stands for a table in your database whose primary key is the event id.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const secrets = (process.env.JETPOST_WEBHOOK_SECRET ?? '').split(',')
if (!secrets.every(secret => /^whsec_[A-Za-z0-9+/]{16,}=*$/.test(secret))) {
  throw new Error('JETPOST_WEBHOOK_SECRET must be a secret whsec_…, or two with a comma between them.')
}
const seen = new Set()

function isSigned (body, header = '') {
  const given = Buffer.from(header)
  return secrets.some(secret => {
    const wanted = Buffer.from(`sha256=${createHmac('sha256', secret).update(body).digest('hex')}`)
    return given.length === wanted.length && timingSafeEqual(given, wanted)
  })
}

function accept (event) {
  if (seen.has(event.id)) return
  seen.add(event.id)
  if (seen.size > 100_000) seen.delete(seen.values().next().value)
  setImmediate(() => console.log(event.type, event.id, event.data.to))
}

async function receive (request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const raw = Buffer.concat(chunks)
  if (!isSigned(raw, request.headers['x-service-signature'])) return 401
  const body = JSON.parse(raw)
  for (const event of body.object === 'batch' ? body.events : [body]) accept(event)
  return 204
}

createServer((request, response) => {
  const answer = status => response.writeHead(status).end()
  if (!(request.headers['content-length'] <= 10_000_000)) return answer(413)
  receive(request).then(answer, () => answer(400))
}).listen(process.env.PORT ?? 3000, '127.0.0.1')
