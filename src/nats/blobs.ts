import { CONTENT_BUCKET } from '#streams/topology.ts'
import { deadline } from '#src/base/errors.ts'
import { CONTENT_STREAM, placesOfBlob, placesOfStray } from './blob-places.ts'
import type { Bus } from './connect.ts'
import { deleteSecurely } from './secure-delete.ts'

const TIMEOUT_MS = 10_000

/** Bodies too big for a fact. */
export interface Blobs {
  put(name: string, bytes: Uint8Array): Promise<void>
  /** null when there is none. */
  get(name: string): Promise<Uint8Array | null>
  /** Names and when each was written, for the reconciler. */
  list(): Promise<Array<{ name: string, writtenMs: number }>>
  /** So that its bytes are overwritten where they lie. */
  remove(name: string): Promise<void>
  /** Removes what was cut off while it was put, and stored before `beforeMs` (Unix). Resolves to how many pieces that
   *  were. */
  removeStray(beforeMs: number): Promise<number>
}

/** Opens the object store, whose stream is part of the topology; every call ends within 10 s, but those that remove:
 *  they go piece by piece. */
export async function openBlobs (bus: Bus): Promise<Blobs> {
  const store = await bus.js.views.os(CONTENT_BUCKET)
  const within = <T>(promise: Promise<T>) => deadline(promise, TIMEOUT_MS, 'the object store did not answer in time')
  return {
    put: async (name, bytes) => void await within(store.putBlob({ name }, bytes)),
    get: name => within(store.getBlob(name)),
    list: async () => (await within(store.list())).map(({ name, mtime }) => ({ name, writtenMs: Date.parse(mtime) })),
    remove: async name => await deleteSecurely(bus, CONTENT_STREAM, await placesOfBlob(bus, name)),
    async removeStray (beforeMs) {
      const places = await placesOfStray(bus, beforeMs)
      await deleteSecurely(bus, CONTENT_STREAM, places)
      return places.length
    }
  }
}
