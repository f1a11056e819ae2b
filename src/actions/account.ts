import { decideAccountLimits, decideResumption, decideSuspension } from '#streams/account/decide.ts'
import { AccountCreated, type SuspensionReason } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import type { AccountEntry } from '#streams/directory.ts'
import { limitsFault, nameFault } from '#streams/key/decide.ts'
import type { LimitClass } from '#streams/key/facts.ts'
import { newId } from '#src/base/id.ts'
import { askedBy, stamp } from './fact-log.ts'
import { handleCommand, type CommandServices, type Decide, type Handled } from './handle-command.ts'
import type { Commander, Services } from './services.ts'

/** Makes an account; `id` is given only for the first one, which every node knows by name. Throws Conflict when that
 *  one is there already. */
export async function createAccount (
  services: Services,
  by: Commander,
  name: string,
  id = newId('acc', services.factLog.clock.nowMs())
): Promise<{ account: string, seq: number } | Refusal> {
  const fault = nameFault(name)
  if (fault !== null) return fault
  const fact = stamp(
    AccountCreated,
    askedBy({ ...by, account: id }),
    { account: id, name },
    services.factLog.clock.nowMs()
  )
  const [seq] = await services.factLog.append([{ fact, expectedSeq: 0 }])
  return { account: id, seq: seq! }
}

/** Sets requests a minute of all keys of an account together. Refuses `invalid_limit` and `not_found`. */
export async function limitAccount (
  services: CommandServices,
  by: Commander,
  id: string,
  limits: Partial<Record<LimitClass, number>>
): Promise<Handled<'account'> | Refusal> {
  const fault = limitsFault(limits)
  if (fault !== null) return fault
  return await change(services, by, id, account => decideAccountLimits(account, limits))
}

/** Lets nothing of an account go out: new mail is refused, and what was accepted and is not being sent waits. Reads and
 *  webhooks go on. Refuses `not_found`, `first_account` and `invalid_note`. Throws LogUnavailable or Conflict. */
export async function suspendAccount (
  services: CommandServices,
  by: Commander,
  id: string,
  { reason, note }: { reason: SuspensionReason, note: string | null }
): Promise<Handled<'account'> | Refusal> {
  return await change(services, by, id, account => decideSuspension(account, reason, note))
}

/** Lets it send again; what waits goes out within minutes. Refuses `not_found`. Throws LogUnavailable or Conflict. */
export async function resumeAccount (
  services: CommandServices,
  by: Commander,
  id: string
): Promise<Handled<'account'> | Refusal> {
  return await change(services, by, id, decideResumption)
}

async function change (
  services: CommandServices,
  by: Commander,
  id: string,
  decide: (account: AccountEntry) => ReturnType<Decide<'account'>>
): Promise<Handled<'account'> | Refusal> {
  return await handleCommand(
    services,
    'account',
    id,
    askedBy({ ...by, account: id }),
    account => account === undefined ? new Refusal('not_found', `There is no account ${id}.`) : decide(account)
  )
}
