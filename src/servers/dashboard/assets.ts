import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'

const require = createRequire(import.meta.url)
const own = (file: string) => join(import.meta.dirname, 'assets', file)

const FILES = {
  'style.css': own('style.css'),
  'app.js': own('app.js'),
  'activity.css': own('activity.css'),
  'activity.js': own('activity.js'),
  'chart.js': own('chart.js'),
  'palette.css': own('palette.css'),
  'palette.js': own('palette.js'),
  'passkey.js': own('passkey.js'),
  'icon.svg': own('icon.svg'),
  'inter.woff2': own('inter.woff2'),
  'htmx.js': require.resolve('htmx.org/dist/htmx.min.js'),
  'idiomorph.js': require.resolve('idiomorph/dist/idiomorph-ext.min.js'),
  'uplot.js': require.resolve('uplot/dist/uPlot.iife.min.js'),
  'uplot.css': require.resolve('uplot/dist/uPlot.min.css')
}
export type AssetName = keyof typeof FILES

const TYPES: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
  woff2: 'font/woff2'
}

interface Asset {
  type: string
  body: Buffer
  zipped: Buffer
  tag: string
}

const assets = new Map<string, Asset>()

/** Read once, at its first use. */
function asset (name: AssetName): Asset {
  const known = assets.get(name)
  if (known !== undefined) return known
  const body = name === 'style.css' ? withFont(readFileSync(FILES[name], 'utf8')) : readFileSync(FILES[name])
  const read = {
    type: TYPES[name.split('.').at(-1)!]!,
    body,
    zipped: gzipSync(body, { level: 9 }),
    tag: createHash('sha256').update(body).digest('base64url').slice(0, 12)
  }
  assets.set(name, read)
  return read
}

/** The font has one URL, in the style sheet as in the page that loads it ahead. */
function withFont (css: string): Buffer {
  return Buffer.from(css.replace('url(inter.woff2)', `url(${assetUrl('inter.woff2')})`))
}

/** The URL has a hash of the bytes, so that browsers can keep the asset for ever. */
export function assetUrl (name: AssetName): string {
  return `/dashboard/assets/${asset(name).tag}/${name}`
}

/** Styles and scripts, for everybody. */
export function assetRoutes (app: FastifyInstance): void {
  app.get<{ Params: { tag: string, name: string } }>(
    '/assets/:tag/:name',
    { config: { open: true } },
    async (request, reply) => {
      const { name, tag } = request.params
      if (!Object.hasOwn(FILES, name)) return await reply.code(404).type('text/plain').send('Not found')
      const { type, body, zipped, tag: present } = asset(name as AssetName)
      // A page of an older version requests an asset that is gone: it gets the present one, and does not keep it.
      reply.type(type).header('cache-control', tag === present ? 'public, max-age=31536000, immutable' : 'no-store')
        .header('vary', 'accept-encoding')
      // A font is compressed as it is.
      const isTaken = !name.endsWith('.woff2') && /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))
      if (!isTaken) return await reply.send(body)
      return await reply.header('content-encoding', 'gzip').send(zipped)
    }
  )
}
