import { createReadStream } from 'node:fs'
import { Complaint, errorCode } from '#src/base/errors.ts'

/** A file, or standard input for `-`, of at most `bytesMax`. Throws a Complaint. */
export async function bytesOf (path: string, bytesMax: number): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of path === '-' ? process.stdin : createReadStream(path)) {
      bytes += (chunk as Buffer).length
      if (bytes > bytesMax) throw new Complaint(`${path} is larger than ${bytesMax / 1024 / 1024} MB.`)
      chunks.push(chunk as Buffer)
    }
  } catch (error) {
    throw error instanceof Complaint ? error : new Complaint(`${path} cannot be read: ${errorCode(error)}.`)
  }
  return Buffer.concat(chunks)
}
