import { createHash } from 'node:crypto'
import { headers, nuid } from 'nats'
import { CONTENT_BUCKET } from '#streams/topology.ts'
import type { Bus } from './connect.ts'
import { JetStreamError, unreadable } from './errors.ts'
import { getMessage } from './get.ts'
import type { PublishAck } from './publish.ts'
import { readPages } from './range.ts'

/** Objects as the client library keeps them, by its format (nats-architecture ADR-20), without its own way there: it
 *  hashes in JavaScript, a fifth of a second for 14 MB in which nothing else is done. */

export const CONTENT_STREAM = `OBJ_${CONTENT_BUCKET}`

const CHUNK_BYTES = 128 * 1024
/** Pieces on their way at once; between them the process turns to others. */
const AT_ONCE = 8
const PAGE_BYTES = 1024 * 1024
const ANSWER_MS = 5000

/** What the store says of an object. */
interface Description {
  nuid: string
  size: number
  digest: string
  deleted?: boolean
}

/** Where the description of an object lies in the stream; null when there is none. Throws when NATS does not answer. */
export async function descriptionOf (bus: Bus, name: string): Promise<(Description & { seq: number }) | null> {
  const message = await getMessage(bus, CONTENT_STREAM, { last_by_subj: subjectOf(name) }, 'leader', ANSWER_MS)
  if (message === null) return null
  return { ...JSON.parse(Buffer.from(message.data).toString()) as Description, seq: message.seq }
}

function subjectOf (name: string): string {
  const encoded = Buffer.from(name).toString('base64').replaceAll('+', '-').replaceAll('/', '_')
  return `$O.${CONTENT_BUCKET}.M.${encoded}`
}

export const chunkSubject = (id: string) => `$O.${CONTENT_BUCKET}.C.${id}`

/** Stores an object, its description last. Throws JetStreamError, and what `isUnanswered` knows. */
export async function putBlob (bus: Bus, name: string, bytes: Uint8Array, timeoutMs: number): Promise<void> {
  const id = nuid.next()
  const chunkBytes = Math.min(CHUNK_BYTES, bus.nc.info?.max_payload ?? CHUNK_BYTES)
  const hash = createHash('sha256')
  for (let at = 0; at < bytes.length; at += AT_ONCE * chunkBytes) {
    const part = bytes.subarray(at, at + AT_ONCE * chunkBytes)
    hash.update(part)
    const chunks = Array.from(
      { length: Math.ceil(part.length / chunkBytes) },
      (_, i) => part.subarray(i * chunkBytes, (i + 1) * chunkBytes)
    )
    await Promise.all(chunks.map(async chunk => await publish(bus, chunkSubject(id), chunk, timeoutMs)))
  }
  const description = {
    name,
    bucket: CONTENT_BUCKET,
    nuid: id,
    size: bytes.length,
    chunks: Math.ceil(bytes.length / chunkBytes),
    options: { max_chunk_size: chunkBytes },
    mtime: new Date().toISOString(),
    digest: digestOf(hash.digest()),
    deleted: false
  }
  await publish(bus, subjectOf(name), Buffer.from(JSON.stringify(description)), timeoutMs, true)
}

async function publish (
  bus: Bus,
  subject: string,
  bytes: Uint8Array,
  timeout: number,
  replaces = false
): Promise<void> {
  const head = headers()
  if (replaces) head.set('Nats-Rollup', 'sub')
  const answer = await bus.nc.request(subject, bytes, { timeout, ...(replaces ? { headers: head } : {}) })
  const { error } = answer.json<PublishAck>()
  if (error !== undefined) throw new JetStreamError(error.err_code, error.description)
}

/** Null when there is none. Throws what `isUnanswered` knows, also for one of which a part is not there. */
export async function getBlob (bus: Bus, name: string): Promise<Uint8Array | null> {
  const described = await descriptionOf(bus, name)
  if (described === null || described.deleted === true) return null
  const bytes = Buffer.allocUnsafe(described.size)
  const hash = createHash('sha256')
  let at = 0
  const position = { filter: chunkSubject(described.nuid), afterSeq: 0 }
  const limits = { max: () => PAGE_BYTES / CHUNK_BYTES, bytesMax: PAGE_BYTES }
  if (described.size > 0) {
    for await (const messages of readPages(bus, CONTENT_STREAM, position, limits)) {
      for (const { data } of messages) {
        bytes.set(data.subarray(0, described.size - at), at)
        at += data.length
        hash.update(data)
      }
      if (at >= described.size) break
    }
  }
  if (at === described.size && digestOf(hash.digest()) === described.digest) return bytes
  throw unreadable(CONTENT_STREAM, `${name} is not whole`)
}

/** The library pads. */
function digestOf (hash: Buffer): string {
  return `SHA-256=${hash.toString('base64').replaceAll('+', '-').replaceAll('/', '_')}`
}
