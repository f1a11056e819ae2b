import type { PageResult } from './visit.ts'

/** A file to save: the browser must not show content of others under our origin. */
export function download (type: string, name: string, body: Buffer | string): PageResult {
  const plain = name.replaceAll(/[^\w.-]+/g, '_').slice(-100)
  return {
    send: reply =>
      reply.type(type).headers({
        'content-disposition': `attachment; filename="${plain}"; filename*=UTF-8''${
          encodeURIComponent(name.slice(-200).toWellFormed()).replaceAll(/['()*]/g, escaped)
        }`,
        'content-security-policy': "sandbox; default-src 'none'"
      }).send(body)
  }
}

const escaped = (char: string): string => `%${char.charCodeAt(0).toString(16).toUpperCase()}`
