/** A sentence for the operator: the program prints it without a stack, and stops. */
export class Complaint extends Error {
  override name = 'Complaint'
}

/** What was thrown, as an Error: libraries throw strings and objects, too. */
export function asError (thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** The machine-readable code of a Node, pg or nats error, or '' when it has none. */
export function errorCode (thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code
  return typeof code === 'string' || typeof code === 'number' ? String(code) : ''
}

/** A deadline has passed. */
export class Late extends Error {
  override name = 'Late'
}

/** Rejects with Late when `promise` has not settled within `timeoutMs`. The promise itself goes on: the caller must
 *  not need its result. */
export async function deadline<T> (promise: Promise<T>, timeoutMs: number, message: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Late(message)), timeoutMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
