import { createReadStream } from 'node:fs'
import { Complaint, errorCode } from '#src/base/errors.ts'
import { LIMIT_CLASSES, type LimitClass } from '#streams/key/facts.ts'
import { usageError } from './command.ts'

/** Limits as a command takes and shows them: `emails:send=600 other=60`. */
export function pairsOf (limits: Partial<Record<LimitClass, number>>): string {
  return Object.entries(limits).map(([name, value]) => `${name}=${value}`).join(' ')
}

export function limitOfPair (pair: string): [LimitClass, number] {
  const [, name, value] = /^([^=]+)=(\d{1,8})$/.exec(pair) ?? []
  const known = LIMIT_CLASSES.find(one => one === name)
  if (known === undefined) {
    throw usageError(
      `${JSON.stringify(pair)} is no limit: it must be a class, = and a whole number. The classes are ${
        LIMIT_CLASSES.join(', ')
      }.`
    )
  }
  return [known, Number(value)]
}

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
