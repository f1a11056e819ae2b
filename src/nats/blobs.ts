import type { JetStreamClient, ObjectStore } from 'nats'
import { sleep } from '#src/base/backoff.ts'
import { deadline } from '#src/base/errors.ts'
import { CONTENT_BUCKET } from '#streams/topology.ts'
import { api } from './api.ts'
import { chunkSubject, CONTENT_STREAM, descriptionOf, getBlob, putBlob } from './blob-transfer.ts'
import { certainly } from './certain.ts'
import type { Bus } from './connect.ts'
import { isUnanswered, JetStreamError, unreadable } from './errors.ts'
import { getMessage } from './get.ts'
import { readRange } from './range.ts'
import { untilAnswered, withConnection } from './retry-on-disconnect.ts'
import { subjectsUnder } from './status.ts'

const AT_ONCE = 8
const ANSWER_MS = 5000
const TRIES = 5
const PAUSE_MS = 500
/** err_codes of a deletion of what is not there: `sequence not found`, and one that failed, whatever the reason. */
const NOT_DELETED = new Set([10043, 10057])

/** Deletes messages so that their bytes are overwritten where they lie, on every replica; gone ones are left in peace.
 *  Throws JetStreamError, or what `isUnanswered` knows after five silences. */
export async function deleteSecurely (bus: Bus, stream: string, seqs: readonly number[]): Promise<void> {
  const left = [...seqs]
  const work = async () => {
    for (let seq = left.pop(); seq !== undefined; seq = left.pop()) await deleteOne(bus, stream, seq)
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, left.length) }, work))
}

async function deleteOne (bus: Bus, stream: string, seq: number): Promise<void> {
  for (let tries = 1;; tries++) {
    try {
      // Without `no_erase`: a purge, or a deletion with it, leaves the bytes on the disk.
      return void await api(bus, `STREAM.MSG.DELETE.${stream}`, { seq }, ANSWER_MS)
    } catch (error) {
      if (error instanceof JetStreamError && NOT_DELETED.has(error.code)) {
        if (await getMessage(bus, stream, { seq }, 'leader', ANSWER_MS) === null) return
      }
      if (!isUnanswered(error) || tries >= TRIES) throw error
    }
    await sleep(PAUSE_MS)
  }
}

/** Where an object of the store lies in its stream: its chunks, then its description; empty when there is none. The
 *  store's own deletion purges, which leaves the bytes on the disk. Throws when NATS does not answer. */
export async function placesOfBlob (bus: Bus, name: string): Promise<number[]> {
  const described = await descriptionOf(bus, name)
  if (described === null) return []
  const chunks = await chunksUnder(bus, chunkSubject(described.nuid))
  return [...chunks.map(({ seq }) => seq), described.seq]
}

/** Where chunks lie that no description names, stored before `beforeMs` (Unix): a store writes the description last,
 *  and what was cut off before that nobody can ask for. Throws when NATS does not answer. */
async function placesOfStray (bus: Bus, beforeMs: number): Promise<number[]> {
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

const TIMEOUT_MS = 10_000
const stores = new WeakMap<JetStreamClient, Promise<ObjectStore>>()

/** A store speaks by one connection, and is opened once on each. */
function storeOf (js: JetStreamClient): Promise<ObjectStore> {
  const opened = stores.get(js) ?? js.views.os(CONTENT_BUCKET)
  stores.set(js, opened)
  opened.catch(() => stores.delete(js))
  return opened
}

/** Bodies too big for a fact. */
export interface Blobs {
  put(name: string, bytes: Uint8Array): Promise<void>
  /** null when there is none; with `patient` that is certain, as with `certainly`, and may take 25 s more. */
  get(name: string, patient?: boolean): Promise<Uint8Array | null>
  /** Names and when each was written, for the reconciler. */
  list(): Promise<Array<{ name: string, writtenMs: number }>>
  /** So that its bytes are overwritten where they lie. */
  remove(name: string): Promise<void>
  /** Removes what was cut off while it was put, and stored before `beforeMs` (Unix). Resolves to how many pieces that
   *  were. */
  removeStray(beforeMs: number): Promise<number>
}

/** Opens the object store, whose stream is part of the topology; every call ends within 10 s, but those that remove:
 *  they go piece by piece. What is not answered is put again, whole: the pieces of the first try are strays. */
export async function openBlobs (bus: Bus): Promise<Blobs> {
  const ask = async <T>(question: (store: ObjectStore) => Promise<T>): Promise<T> => {
    const asked = storeOf(bus.js).then(question)
    return await deadline(asked, TIMEOUT_MS, 'the object store did not answer in time')
  }
  const put = async (name: string, bytes: Uint8Array) => {
    for (const endMs = performance.now() + TIMEOUT_MS;; await sleep(PAUSE_MS)) {
      try {
        return await withConnection(bus, endMs - performance.now(), async ms => await putBlob(bus, name, bytes, ms))
      } catch (error) {
        if (!isUnanswered(error) || performance.now() + PAUSE_MS >= endMs) throw error
      }
    }
  }
  await untilAnswered(() => storeOf(bus.js))
  return {
    put: async (name, bytes) => await deadline(put(name, bytes), TIMEOUT_MS, 'the object store took nothing in time'),
    async get (name, patient = false) {
      const bytes = await deadline(getBlob(bus, name), TIMEOUT_MS, 'the object store did not answer in time')
      if (bytes !== null || !patient) return bytes
      const described = await certainly(bus, CONTENT_STREAM, async () => await descriptionOf(bus, name))
      if (described === null) return null
      throw unreadable(CONTENT_STREAM, `${name} is there after all`)
    },
    list: async () =>
      (await ask(store => store.list())).map(({ name, mtime }) => ({ name, writtenMs: Date.parse(mtime) })),
    remove: async name => await deleteSecurely(bus, CONTENT_STREAM, await placesOfBlob(bus, name)),
    async removeStray (beforeMs) {
      const places = await placesOfStray(bus, beforeMs)
      await deleteSecurely(bus, CONTENT_STREAM, places)
      return places.length
    }
  }
}
