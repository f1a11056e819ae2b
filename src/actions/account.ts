import { AccountCreated } from '#streams/account/facts.ts'
import type { Refusal } from '#streams/define.ts'
import { nameFault } from '#streams/key/decide.ts'
import { newId } from '#src/base/id.ts'
import { stamp } from './fact-log.ts'
import type { Services } from './services.ts'

/** Makes an account; `id` is given only for the first one, which every node knows by name. Throws Conflict when that
 *  one is there already. */
export async function createAccount (
  services: Services,
  correlation: string,
  name: string,
  id = newId('acc', services.factLog.clock.nowMs())
): Promise<{ account: string, seq: number } | Refusal> {
  const fault = nameFault(name)
  if (fault !== null) return fault
  const fact = stamp(
    AccountCreated,
    { account: id, correlation, causation: null },
    { account: id, name },
    services.factLog.clock.nowMs()
  )
  const [seq] = await services.factLog.append([{ fact, expectedSeq: 0 }])
  return { account: id, seq: seq! }
}
