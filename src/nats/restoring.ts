import { RESTORING } from '#streams/backup.ts'
import { Complaint } from '#src/base/errors.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { JetStreamError, STREAM_NOT_FOUND } from './errors.ts'
import type { StreamAbout, StreamConfig } from './snapshot.ts'

const TIMEOUT_MS = 15_000

/** Makes place for a log: removes streams that never held anything, and those of a restore that was cut off. Throws a
 *  Complaint when one holds more. A mark on one is on all: a restore begins where there is nothing and takes the marks
 *  off one by one, and nobody works on a log that has any. */
export async function makePlace (bus: Bus, streams: readonly string[]): Promise<void> {
  const found = (await Promise.all(streams.map(stream => look(bus, stream)))).filter(about => about !== null)
  const isCutOff = found.some(({ config }) => config.metadata?.[RESTORING] !== undefined)
  for (const { config, state } of found) {
    if (state.last_seq === 0 || isCutOff) continue
    throw new Complaint(
      `The stream ${config.name} exists, up to sequence ${state.last_seq}, and a log is never overwritten. Restore ` +
        'into a NATS without the streams of Jetpost, or into an empty data folder.'
    )
  }
  for (const { config } of found) await removeStream(bus, config.name)
}

async function look (bus: Bus, stream: string): Promise<StreamAbout | null> {
  return await api<StreamAbout>(bus, `STREAM.INFO.${stream}`, undefined, TIMEOUT_MS).catch(nullWhenGone)
}

/** Deadline 15 s. One that is not there is no unhealthyReason. */
export async function removeStream (bus: Bus, stream: string): Promise<void> {
  await api(bus, `STREAM.DELETE.${stream}`, undefined, TIMEOUT_MS).catch(nullWhenGone)
}

function nullWhenGone (error: unknown): null {
  if (error instanceof JetStreamError && error.code === STREAM_NOT_FOUND) return null
  throw error
}

/** As it is made by a restore: on so many servers, and not to be worked on yet. */
export function configWhileRestoring (config: StreamConfig, replicas: number, since: string): StreamConfig {
  return { ...config, num_replicas: replicas, metadata: { ...config.metadata, [RESTORING]: since } }
}

/** The log is whole: from now on it may be worked on. */
export async function release (bus: Bus, streams: readonly string[]): Promise<void> {
  for (const stream of streams) {
    const { config } = await api<StreamAbout>(bus, `STREAM.INFO.${stream}`, undefined, TIMEOUT_MS)
    const { [RESTORING]: _done, ...metadata } = config.metadata ?? {}
    await api(bus, `STREAM.UPDATE.${stream}`, { ...config, metadata }, TIMEOUT_MS)
  }
}
