// Run: JETPOST_WEBHOOK_SECRET=whsec_… PORT=3000 node node-client.mjs, behind a proxy that terminates TLS.
// `seen` stands for a table in your database whose primary key is the event id.
import { createServer } from 'node:http'
import { verifyWebhook, WebhookSignatureError } from 'jetpost/client'

const secrets = (process.env.JETPOST_WEBHOOK_SECRET ?? '').split(',')
if (!secrets.every(secret => /^whsec_[A-Za-z0-9+/]{16,}=*$/.test(secret))) {
  throw new Error('JETPOST_WEBHOOK_SECRET must be a secret whsec_…, or two with a comma between them.')
}
const seen = new Set()

function accept (event) {
  if (seen.has(event.id)) return
  seen.add(event.id)
  if (seen.size > 100_000) seen.delete(seen.values().next().value)
  setImmediate(() => console.log(event.type, event.id, event.data.to))
}

async function receive (request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = await verifyWebhook({ body: Buffer.concat(chunks), headers: request.headers, secret: secrets })
  for (const event of body.object === 'batch' ? body.events : [body]) accept(event)
}

createServer((request, response) => {
  const answer = status => response.writeHead(status).end()
  if (!(request.headers['content-length'] <= 10_000_000)) return answer(413)
  receive(request).then(() => answer(204), error => answer(error instanceof WebhookSignatureError ? 401 : 400))
}).listen(process.env.PORT ?? 3000, '127.0.0.1')
