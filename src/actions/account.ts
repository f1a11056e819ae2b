import {
  decideAccountChange,
  decideResumption,
  decideSuspension,
  quotaFault,
  type AccountChange
} from '#streams/account/decide.ts'
import { AccountCreated, type SuspensionReason } from '#streams/account/facts.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { Refusal, type Unstamped } from '#streams/define.ts'
import { evolveEntity, type AccountEntry } from '#streams/directory.ts'
import { limitsFault, nameFault } from '#streams/key/decide.ts'
import { newId } from '#src/base/id.ts'
import { askedBy, stamp } from './fact-log.ts'
import { createEntity, handleCommand, type CommandServices, type Decide, type Handled } from './handle-command.ts'
import type { Commander, Services } from './services.ts'

/** Makes an account; `id` is given only for the first one, which every node knows by name. Refuses `invalid_name`,
 *  `invalid_limit` and `invalid_quota`. Throws Conflict when that one is there already, and LogUnavailable. */
export async function createAccount (
  services: Pick<Services, 'factLog'>,
  by: Commander,
  { name, ...change }: AccountChange & { name: string },
  id = newId('acc', services.factLog.clock.nowMs())
): Promise<Handled<'account'> | Refusal> {
  const fault = nameFault(name) ?? changeFault(change)
  if (fault !== null) return fault
  const nowMs = services.factLog.clock.nowMs()
  const cause = askedBy({ ...by, account: id })
  const created: AnyFact = stamp(AccountCreated, cause, { account: id, name }, nowMs)
  const account = evolveEntity('account', id, undefined, [created])!
  const decided: Unstamped[] = decideAccountChange(account, change)
  const changed = decided.map(({ type, data }) => stamp(type, cause, data, nowMs) as AnyFact)
  return await createEntity(services, 'account', id, created, ...changed)
}

function changeFault ({ limits = {}, recipientsPerDay = null }: AccountChange): Refusal | null {
  return limitsFault(limits) ?? (recipientsPerDay === null ? null : quotaFault(recipientsPerDay))
}

/** Sets requests a minute of all keys of an account together, and recipients a day. Refuses `invalid_limit`,
 *  `invalid_quota` and `not_found`. Throws LogUnavailable or Conflict. */
export async function changeAccount (
  services: CommandServices,
  by: Commander,
  id: string,
  wanted: AccountChange
): Promise<Handled<'account'> | Refusal> {
  return changeFault(wanted) ?? await change(services, by, id, account => decideAccountChange(account, wanted))
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

/** The same for its bounces or complaints, as they were counted while it was resumed at `resumedAt` (null = never):
 *  nothing happens when it is suspended, or was resumed since. Refuses as above. */
export async function suspendByRates (
  services: CommandServices,
  by: Commander,
  id: string,
  { reason, note, resumedAt }: { reason: SuspensionReason, note: string, resumedAt: string | null }
): Promise<Handled<'account'> | Refusal> {
  return await change(
    services,
    by,
    id,
    account =>
      account.suspended !== null || account.resumedAt !== resumedAt ? [] : decideSuspension(account, reason, note)
  )
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
