import { Readable } from 'node:stream'
import type { PageResult } from './visit.ts'

/** A browser that takes nothing of a stream for as long is disconnected. */
const STALL_MS = 60_000

/** A file to save: the browser must not show content of others under our origin. */
export function download (type: string, name: string, body: Buffer | string | Readable): PageResult {
  const plain = name.replaceAll(/[^\w.-]+/g, '_').slice(-100)
  return {
    send (reply) {
      if (body instanceof Readable) reply.raw.setTimeout(STALL_MS, () => reply.raw.destroy())
      return reply.type(type).headers({
        'content-disposition': `attachment; filename="${plain}"; filename*=UTF-8''${
          encodeURIComponent(name.slice(-200).toWellFormed()).replaceAll(/['()*]/g, escaped)
        }`,
        'content-security-policy': "sandbox; default-src 'none'"
      }).send(body)
    }
  }
}

const escaped = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`
