import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { EXPORT_TYPES, type ExportFormat } from '#src/actions/export.ts'

const STALL_MS = 60_000

/** Answers with a file that is read as the client takes it. An error in the middle cuts the connection: the client sees
 *  that the file is not complete. */
export async function sendFile (
  { method }: FastifyRequest,
  reply: FastifyReply,
  { name, format, lines }: { name: string, format: ExportFormat, lines: AsyncIterable<string> }
): Promise<FastifyReply> {
  reply.type(EXPORT_TYPES[format]).header('content-disposition', `attachment; filename="${name}.${format}"`)
  // Not text: it has a length, and a stream has none.
  if (method === 'HEAD') return await reply.send(Readable.from([]))
  const { raw } = reply
  raw.setTimeout(STALL_MS, () => raw.destroy())
  return await reply.send(Readable.from(lines, { objectMode: false }))
}
