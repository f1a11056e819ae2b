import type { Projection, Source } from '#projections/define.ts'
import { EMAIL_PARTITIONS } from '#streams/subjects.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'

/** What one part of a build reads of a stream. */
export interface PartSource {
  stream: string
  filters: string[]
}

/** What is read side by side with other parts, and where from. Plain data: it goes to threads. */
export interface Part {
  n: number
  sources: PartSource[]
  positions: Positions
}

/** How a projection's streams are cut into so many parts; into one when they cannot be cut. */
export function cut ({ streams }: Projection, parts: number): PartSource[][] {
  if (parts === 1 || !canBeCut(streams)) return [streams.map(({ stream, filter }) => ({ stream, filters: [filter] }))]
  return Array.from({ length: parts }, (_, n) =>
    streams.map(({ stream, partition }) => ({
      stream,
      filters: emailPartitionsOf(n, parts).map(number => partition!(number)).filter(filter => filter !== null)
    })))
}

function canBeCut (streams: readonly Source[]): boolean {
  return streams.every(({ partition }) => partition !== undefined)
}

function emailPartitionsOf (n: number, parts: number): number[] {
  return Array.from({ length: EMAIL_PARTITIONS }, (_, partition) => partition).filter(partition =>
    partition % parts === n
  )
}

/** The same for the same cut. */
export function nameOf (sources: PartSource[][]): string {
  return sha256Hex(JSON.stringify(sources))
}

/** Stream → for each partition, up to where another stream tells the same. */
export type Rerecorded = Record<string, number[]>

/** As the log is now: whoever reads the other stream to its present end need not read this one up to there. */
export async function readRerecorded (bus: Bus, { streams }: Projection): Promise<Rerecorded> {
  const found = await Promise.all(streams.map(async ({ stream, rerecorded }) =>
    rerecorded === undefined
      ? null
      : [
        stream,
        await Promise.all(Array.from({ length: EMAIL_PARTITIONS }, async (_, partition) => {
          // What cannot be read tells nothing: then all is read.
          const last = await getFact(bus, rerecorded.stream, { last_by_subj: rerecorded.subject(partition) }, 'leader')
            .catch(() => null)
          return last === null ? 0 : rerecorded.upTo(last.fact)
        }))
      ] as const
  ))
  return Object.fromEntries(found.filter(entry => entry !== null))
}

/** Where part `n` of so many begins. */
export function beginningOf ({ streams }: Projection, rerecorded: Rerecorded, n: number, parts: number): Positions {
  return Object.fromEntries(
    streams.map(({ stream }) => [
      stream,
      rerecorded[stream] === undefined
        ? 0
        : Math.min(...emailPartitionsOf(n, parts).map(partition => rerecorded[stream]![partition]!))
    ])
  )
}
