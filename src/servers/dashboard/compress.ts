import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyRequest } from 'fastify'

const zip = promisify(gzip)

/** Less fits one packet anyhow. */
const CHARS_MIN = 1400

/** The page compressed, or null where it goes out as it is.
 *
 *  BREACH reads a secret out of the sizes of compressed answers that hold it beside a text of the attacker's choice. So
 *  no answer is compressed that takes such a text out of its request: those to forms (which also show new keys), and
 *  those to URLs with a query. What is left holds no secret that is worth guessing: form tokens are another text in
 *  each page, keys are shown by their first letters, and no other site can make a browser ask for a page with its
 *  session (SameSite=Strict). Source: breachattack.com. */
export async function compressed ({ method, url, headers }: FastifyRequest, html: string): Promise<Buffer | null> {
  if (method !== 'GET' || url.includes('?') || html.length < CHARS_MIN) return null
  return /\bgzip\b/.test(String(headers['accept-encoding'] ?? '')) ? await zip(html) : null
}
