import { CONTENT_BUCKET } from '#streams/topology.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { JetStreamError, NO_MESSAGE } from './errors.ts'
import { subjectsUnder } from './load.ts'
import { scan } from './scan.ts'

export const CONTENT_STREAM = `OBJ_${CONTENT_BUCKET}`

/** Where an object of the store lies in its stream: its chunks, then its description; empty when there is none. The
 *  store's own deletion purges, which leaves the bytes on the disk. Throws when NATS does not answer. */
export async function placesOfBlob (bus: Bus, name: string): Promise<number[]> {
  const described = await descriptionOf(bus, name)
  if (described === null) return []
  const places: number[] = []
  const filters = [`$O.${CONTENT_BUCKET}.C.${described.nuid}`]
  await scan(
    bus,
    { stream: CONTENT_STREAM, filters, afterSeq: 0, headersOnly: true },
    ({ seq }) => void places.push(seq)
  )
  return [...places, described.seq]
}

/** Where chunks lie that no description names, stored before `beforeMs` (Unix): a store writes the description last,
 *  and what was cut off before that nobody can ask for. Throws when NATS does not answer. */
export async function placesOfStray (bus: Bus, beforeMs: number): Promise<number[]> {
  const chunks = `$O.${CONTENT_BUCKET}.C.`
  const subjects = await subjectsUnder(bus, CONTENT_STREAM, `${chunks}>`)
  const described = new Set<string>()
  await scan(
    bus,
    { stream: CONTENT_STREAM, filters: [`$O.${CONTENT_BUCKET}.M.>`], afterSeq: 0 },
    ({ bytes }) => void described.add(chunks + nuidIn(bytes))
  )
  const places: number[] = []
  for (const subject of subjects.filter(subject => !described.has(subject))) {
    await scan(
      bus,
      { stream: CONTENT_STREAM, filters: [subject], afterSeq: 0, headersOnly: true },
      ({ seq, storedMs }) => void (storedMs < beforeMs && places.push(seq))
    )
  }
  return places
}

function nuidIn (description: Uint8Array): string {
  return (JSON.parse(Buffer.from(description).toString()) as { nuid: string }).nuid
}

async function descriptionOf (bus: Bus, name: string): Promise<{ nuid: string, seq: number } | null> {
  const subject = `$O.${CONTENT_BUCKET}.M.${
    Buffer.from(name).toString('base64').replaceAll('+', '-').replaceAll('/', '_')
  }`
  try {
    const { message } = await api<{ message: { seq: number, data: string } }>(bus, `STREAM.MSG.GET.${CONTENT_STREAM}`, {
      last_by_subj: subject
    })
    return { nuid: nuidIn(Buffer.from(message.data, 'base64')), seq: message.seq }
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return null
    throw error
  }
}
