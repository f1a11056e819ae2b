import { CONTENT_BUCKET } from '#streams/topology.ts'
import type { Bus } from './connect.ts'
import { getMessage } from './get.ts'
import { readRange } from './range.ts'
import { subjectsUnder } from './status.ts'

export const CONTENT_STREAM = `OBJ_${CONTENT_BUCKET}`

const TIMEOUT_MS = 5000

/** Where an object of the store lies in its stream: its chunks, then its description; empty when there is none. The
 *  store's own deletion purges, which leaves the bytes on the disk. Throws when NATS does not answer. */
export async function placesOfBlob (bus: Bus, name: string): Promise<number[]> {
  const described = await descriptionOf(bus, name)
  if (described === null) return []
  const chunks = await chunksUnder(bus, `$O.${CONTENT_BUCKET}.C.${described.nuid}`)
  return [...chunks.map(({ seq }) => seq), described.seq]
}

/** Where chunks lie that no description names, stored before `beforeMs` (Unix): a store writes the description last,
 *  and what was cut off before that nobody can ask for. Throws when NATS does not answer. */
export async function placesOfStray (bus: Bus, beforeMs: number): Promise<number[]> {
  const chunks = `$O.${CONTENT_BUCKET}.C.`
  const subjects = await subjectsUnder(bus, CONTENT_STREAM, `${chunks}>`)
  const described = new Set<string>()
  const descriptions = { stream: CONTENT_STREAM, filters: [`$O.${CONTENT_BUCKET}.M.>`], afterSeq: 0 }
  for await (const messages of readRange(bus, descriptions)) {
    for (const { data } of messages) described.add(chunks + nuidIn(data))
  }
  const places: number[] = []
  for (const subject of subjects.filter(subject => !described.has(subject))) {
    const old = (await chunksUnder(bus, subject)).filter(({ storedMs }) => storedMs < beforeMs)
    places.push(...old.map(({ seq }) => seq))
  }
  return places
}

async function chunksUnder (bus: Bus, subject: string): Promise<Array<{ seq: number, storedMs: number }>> {
  const chunks = { stream: CONTENT_STREAM, filters: [subject], afterSeq: 0, headersOnly: true }
  const found: Array<{ seq: number, storedMs: number }> = []
  for await (const messages of readRange(bus, chunks)) {
    for (const { seq, storedMs } of messages) found.push({ seq, storedMs })
  }
  return found
}

function nuidIn (description: Uint8Array): string {
  return (JSON.parse(Buffer.from(description).toString()) as { nuid: string }).nuid
}

async function descriptionOf (bus: Bus, name: string): Promise<{ nuid: string, seq: number } | null> {
  const subject = `$O.${CONTENT_BUCKET}.M.${
    Buffer.from(name).toString('base64').replaceAll('+', '-').replaceAll('/', '_')
  }`
  const message = await getMessage(bus, CONTENT_STREAM, { last_by_subj: subject }, 'leader', TIMEOUT_MS)
  return message === null ? null : { nuid: nuidIn(message.data), seq: message.seq }
}
