import type { Projection, Source } from '#projections/define.ts'
import { EMAIL_PARTITIONS } from '#streams/subjects.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'

/** What one part of a rebuild reads of a stream. */
export interface PartSource {
  stream: string
  filters: string[]
}

/** What is read side by side with other parts, and from where on. Plain data: it goes to threads. */
export interface RebuildPart {
  n: number
  sources: PartSource[]
  positions: Positions
}

/** A projection's streams as so many parts; as one when they have no partitions. */
export function splitSources ({ streams }: Projection, parts: number): PartSource[][] {
  if (parts === 1 || !arePartitioned(streams)) {
    return [streams.map(({ stream, filter }) => ({ stream, filters: [filter] }))]
  }
  return Array.from({ length: parts }, (_, n) =>
    streams.map(({ stream, partition }) => ({
      stream,
      filters: partitionsOf(n, parts).map(number => partition!(number)).filter(filter => filter !== null)
    })))
}

function arePartitioned (streams: readonly Source[]): boolean {
  return streams.every(({ partition }) => partition !== undefined)
}

function partitionsOf (n: number, parts: number): number[] {
  return Array.from({ length: EMAIL_PARTITIONS }, (_, partition) => partition).filter(partition =>
    partition % parts === n
  )
}

/** The same for the same split. */
export function fingerprintOfParts (sources: PartSource[][]): string {
  return sha256Hex(JSON.stringify(sources))
}

/** Stream → for each partition, the sequence up to which another stream holds the same. */
export type Rerecorded = Record<string, number[]>

/** As the log is now: a reader of the other stream up to its present end need not read this one up to there. */
export async function readRerecorded (bus: Bus, { streams }: Projection): Promise<Rerecorded> {
  const found = await Promise.all(streams.map(async ({ stream, rerecorded }) => {
    if (rerecorded === undefined) return null
    const upTo = await Promise.all(Array.from({ length: EMAIL_PARTITIONS }, async (_, partition) => {
      const query = { last_by_subj: rerecorded.subject(partition) }
      // When it cannot be read, all is read.
      const last = await getFact(bus, rerecorded.stream, query, 'leader').catch(() => null)
      return last === null ? 0 : rerecorded.upTo(last.fact)
    }))
    return [stream, upTo] as const
  }))
  return Object.fromEntries(found.filter(entry => entry !== null))
}

/** Where part `n` of so many begins. */
export function startOf ({ streams }: Projection, rerecorded: Rerecorded, n: number, parts: number): Positions {
  return Object.fromEntries(streams.map(({ stream }) => {
    const upTo = rerecorded[stream]
    return [stream, upTo === undefined ? 0 : Math.min(...partitionsOf(n, parts).map(partition => upTo[partition]!))]
  }))
}
