const LF = 0x0a

/** The lines of a stream of bytes as text, however they are cut; null for one of over `bytesMax` bytes, which is not
 *  held. Only LF ends a line: JSON may hold every other character that readers of text take for an end. */
export async function* linesOf (stream: AsyncIterable<Buffer>, bytesMax: number): AsyncGenerator<string | null> {
  let parts: Buffer[] = []
  let bytes = 0
  const take = (): string | null => {
    const line = bytes > bytesMax ? null : Buffer.concat(parts).toString()
    parts = []
    bytes = 0
    return line
  }
  const hold = (part: Buffer) => {
    bytes += part.length
    if (bytes > bytesMax) parts = []
    else parts.push(part)
  }
  for await (const chunk of stream) {
    let from = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, from)) {
      hold(chunk.subarray(from, end))
      yield take()
      from = end + 1
    }
    hold(chunk.subarray(from))
  }
  if (bytes > 0) yield take()
}
