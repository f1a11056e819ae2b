import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance, FastifyReply } from 'fastify'
import packageJson from '../../../package.json' with { type: 'json' }
import { documentOf, type ApiRoute } from './openapi-document.ts'

/** Every route under /api that is registered after this. */
export function rememberRoutes (app: FastifyInstance): ApiRoute[] {
  const routes: ApiRoute[] = []
  app.addHook('onRoute', ({ method, url, schema = {}, config = {} }) => {
    for (const name of [method].flat()) {
      if (url.startsWith('/api/') && name !== 'HEAD') {
        routes.push({ method: name, url, schema: schema as ApiRoute['schema'], config })
      }
    }
  })
  return routes
}

/** What Swagger UI needs and nothing more: our own files, pictures it carries in its styles, and the API itself. */
const PAGE_POLICY = {
  'default-src': "'none'",
  'script-src': "'self'",
  'style-src': "'self'",
  'img-src': "'self' data:",
  'connect-src': "'self'",
  'base-uri': "'none'",
  'form-action': "'none'",
  'frame-ancestors': "'none'"
}

/** `/openapi.json` and `/docs`, for anybody: they say what there is, not what anybody has. Registered after the routes
 *  that it describes. */
export async function apiDescription (
  app: FastifyInstance,
  { routes, publicUrl }: { routes: ApiRoute[], publicUrl: string }
): Promise<void> {
  const document = documentOf(routes, { publicUrl, version: packageJson.version })
  const text = JSON.stringify(document)
  app.get('/openapi.json', async (_request, reply) => reply.type('application/json; charset=utf-8').send(text))
  // The page asks this plugin for the document. It would make one itself, but with every error of every operation
  // written out, and without the names of bodies. What it asks on trial goes where it came from, under whatever name:
  // its policy allows no other place.
  const shown = { ...document, servers: [{ url: '..', description: 'This server' }] }
  await app.register(swagger, { mode: 'static', specification: { document: shown as never } })
  app.addHook('onSend', async (_request, reply, payload) => withViewport(reply, payload))
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: PAGE_POLICY,
    theme: { title: 'Jetpost API' },
    uiConfig: { layout: 'BaseLayout', displayRequestDuration: true }
  })
}

/** Without it a telephone shows the page as wide as a computer does. */
function withViewport (reply: FastifyReply, payload: unknown): unknown {
  const isPage = String(reply.getHeader('content-type')).startsWith('text/html') && typeof payload === 'string'
  return isPage
    ? payload.replace('<head>', '<head>\n<meta name="viewport" content="width=device-width, initial-scale=1">')
    : payload
}
