import { userInfo } from 'node:os'
import { Refusal, type Actor } from '#streams/define.ts'
import { subjects } from '#streams/subjects.ts'
import type { Commander, Services } from '#src/actions/services.ts'
import { followDirectory } from '#src/actions/directory.ts'
import { openServices } from '#src/actions/open-services.ts'
import { systemClock } from '#src/base/clock.ts'
import type { Config } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { newId } from '#src/base/id.ts'
import { createLog, type Log } from '#src/base/log.ts'
import { readServers } from '#src/embedded/kept.ts'
import { Conflict } from '#src/nats/errors.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import { usageError } from './command.ts'
import { commandSecrets, nothingRuns, readSettings } from './settings.ts'

/** With services of the shell's own, beside the running service: the same actions, the same facts. */
export async function withServices<T> (use: (services: Services, by: Commander) => Promise<T>): Promise<T> {
  const settings = await readSettings('NATS_URL')
  const { config } = settings
  const secrets = await commandSecrets(settings)
  const log = createLog('error')
  const bus = await openBus(config, log)
  const directory = followDirectory(bus, log)
  try {
    if (!await directory.catchUp(30_000)) throw new Complaint('NATS did not send the directory within 30 s.')
    return await use(
      await openServices({ bus, clock: systemClock, directory, secrets, config }),
      { correlation: newId('cli', Date.now()), actor: operatorActor() }
    )
  } catch (error) {
    throw error instanceof Conflict
      ? new Complaint('Somebody else has changed this at the same time: check it and try again.')
      : error
  } finally {
    await directory.stop()
    await bus.close()
  }
}

/** Who may use the shell here may do everything: the log keeps the name of the system's user. */
export function operatorActor (): Actor {
  return { kind: 'operator', id: userName(), ip: null }
}

/** A container's user may have a number alone. */
function userName (): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}

/** The NATS of the running service. Throws a Complaint when it does not answer within 5 s. */
export async function openBus (config: Config, log: Log): Promise<Bus> {
  const options = { url: await natsUrlOf(config), creds: config.natsCreds, name: 'jetpost cli', log, isPatient: true }
  return await connectBus(options, 5000).catch(error => {
    throw new Complaint(`NATS cannot be reached: ${(error as Error).message}`)
  })
}

async function natsUrlOf (config: Config): Promise<string> {
  if (config.natsUrl !== null) return config.natsUrl
  const servers = await readServers(config.dataDir)
  if (servers?.nats == null) {
    throw new Complaint(`${nothingRuns(config)}, or set NATS_URL.`)
  }
  return servers.nats
}

/** Throws a Complaint about the command line when there is no such account. */
export function knownAccount ({ directory }: Services, account: string): string {
  if (!directory.now.accounts.has(account)) throw noAccount(account)
  return account
}

/** The same without services. */
export async function checkAccount (bus: Bus, account: string): Promise<void> {
  if (await getFact(bus, 'CONTROL', { last_by_subj: subjects.account(account) }, 'leader') === null) {
    throw noAccount(account)
  }
}

function noAccount (account: string): Complaint {
  return usageError(`There is no account ${account}.`)
}

/** An action's result; its refusal is thrown: as a usage error where the command would be wrong at any time. */
export function granted<T> (result: T | Refusal): T {
  if (!(result instanceof Refusal)) return result
  throw /^(invalid_|in_the_past$)/.test(result.code) ? usageError(result.message) : new Complaint(result.message)
}
