import { setTimeout as wait } from 'node:timers/promises'

/** Resolves once `state` holds; throws when it does not within `timeoutMs`. */
export async function until (state: () => boolean | Promise<boolean>, timeoutMs = 30_000): Promise<void> {
  for (const endMs = Date.now() + timeoutMs; Date.now() < endMs; await wait(20)) if (await state()) return
  throw new Error(`the state was not reached within ${timeoutMs / 1000} s`)
}

/** Resolves to a time later than all that was stamped until now; what is stamped from then on is not earlier. */
export async function nextMs (): Promise<number> {
  const nowMs = Date.now()
  await until(() => Date.now() > nowMs)
  return Date.now()
}
