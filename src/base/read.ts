/** All of a stream's bytes; throws an Error with `message` as soon as there are more than `bytesMax`. */
export async function readAtMost (stream: AsyncIterable<Buffer>, bytesMax: number, message: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream) {
    bytes += chunk.length
    if (bytes > bytesMax) throw new Error(message)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
