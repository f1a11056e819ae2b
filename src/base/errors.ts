/** A sentence for the operator: the program stops and prints it alone, without a stack. */
export class Complaint extends Error {
  override name = 'Complaint'
}

/** What was thrown, as an Error: strangers throw strings and objects, so the edge coerces once. */
export function asError (thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** The machine-readable code of a Node, pg or nats error, or '' when it has none. */
export function errorCode (thrown: unknown): string {
  const code = (thrown as { code?: unknown } | null)?.code
  return typeof code === 'string' || typeof code === 'number' ? String(code) : ''
}

/** The answer did not come in time. */
export class Late extends Error {
  override name = 'Late'
}

/** Rejects with Late when `promise` has not settled within `timeoutMs`. The promise itself goes on: the caller must not
 *  need its result. */
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
