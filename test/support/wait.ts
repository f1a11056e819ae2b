import { setTimeout as wait } from 'node:timers/promises'

/** Resolves once `state` holds; throws when it does not within `timeoutMs`. */
export async function until (state: () => boolean | Promise<boolean>, timeoutMs = 30_000): Promise<void> {
  for (const endMs = Date.now() + timeoutMs; Date.now() < endMs; await wait(20)) if (await state()) return
  throw new Error(`the state was not reached within ${timeoutMs / 1000} s`)
}
