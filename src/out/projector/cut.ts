import type { Projection, Source } from '#projections/define.ts'
import { SHARDS } from '#streams/subjects.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastAtLeader } from '#src/nats/lookup.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'

/** What one part of a build reads of a stream. */
export interface PartSource { stream: string, filters: string[] }

/** What is read side by side with other parts, and where from. Plain data: it goes to threads. */
export interface Part { n: number, sources: PartSource[], positions: Positions }

/** How a projection's streams are cut into so many parts; into one when they cannot be cut. */
export function cut ({ streams }: Projection, parts: number): PartSource[][] {
  if (parts === 1 || !canBeCut(streams)) return [streams.map(({ stream, filter }) => ({ stream, filters: [filter] }))]
  return Array.from({ length: parts }, (_, n) => streams.map(({ stream, shard }) => ({
    stream, filters: shardsOf(n, parts).map(number => shard!(number)).filter(filter => filter !== null)
  })))
}

function canBeCut (streams: readonly Source[]): boolean {
  return streams.every(({ shard }) => shard !== undefined)
}

function shardsOf (n: number, parts: number): number[] {
  return Array.from({ length: SHARDS }, (_, shard) => shard).filter(shard => shard % parts === n)
}

/** The same for the same cut. */
export function nameOf (sources: PartSource[][]): string {
  return sha256Hex(JSON.stringify(sources))
}

/** Stream → for each shard, up to where another stream tells the same. */
export type Retold = Record<string, number[]>

/** As the log is now: whoever reads the other stream to its present end need not read this one up to there. */
export async function lookAtRetold (bus: Bus, { streams }: Projection): Promise<Retold> {
  const found = await Promise.all(streams.map(async ({ stream, retold }) => retold === undefined
    ? null
    : [stream, await Promise.all(Array.from({ length: SHARDS }, async (_, shard) => {
        // What cannot be read tells nothing: then all is read.
        const last = await lastAtLeader(bus, retold.stream, retold.subject(shard)).catch(() => null)
        return last === null ? 0 : retold.upTo(last.fact)
      }))] as const))
  return Object.fromEntries(found.filter(entry => entry !== null))
}

/** Where part `n` of so many begins. */
export function beginningOf ({ streams }: Projection, retold: Retold, n: number, parts: number): Positions {
  return Object.fromEntries(streams.map(({ stream }) => [stream, retold[stream] === undefined ? 0 : Math.min(...shardsOf(n, parts).map(shard => retold[stream]![shard]!))]))
}
