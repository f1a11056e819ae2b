import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { FIXED_KEY } from '#streams/key/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { Complaint } from '#src/base/errors.ts'
import { newSecret, sha256Hex } from '#src/base/secret.ts'
import { Conflict } from '#src/nats/errors.ts'
import { createAccount } from './account.ts'
import { addDomain } from './domain.ts'
import { roleActor } from './fact-log.ts'
import { createKey, revokeKey } from './key.ts'
import type { Commander, Services } from './services.ts'

const FIRST_KEY = 'key_first'
/** What the settings ask for when a process starts. */
const STARTER: Commander = { correlation: 'first-start', actor: roleActor('start') }
/** Name of the key that JETPOST_API_KEY fixes. It may be given another: such keys are known by their id. */
const OPERATOR_KEY_NAME = 'JETPOST_API_KEY'

/** Makes what a new installation needs: account, key, domains. Safe to run at every start and on many nodes at once.
 *  Resolves to the first key's secret when it was made just now, else null. */
export async function firstStart (
  services: Services,
  wish: { apiKey: string | null, domains: string[] }
): Promise<string | null> {
  await unlessThere(createAccount(services, STARTER, { name: 'First account' }, FIRST_ACCOUNT))
  const asker = { account: FIRST_ACCOUNT, ...STARTER }
  for (const name of wish.domains) {
    const added = await unlessThere(addDomain(services, asker, name))
    if (added instanceof Refusal) throw new Complaint(`JETPOST_DOMAINS: ${added.message}`)
  }
  const made = wish.apiKey === null ? await firstKey(services) : await operatorKey(services, wish.apiKey)
  await services.directory.catchUp(10_000)
  return made
}

async function firstKey (services: Services): Promise<string | null> {
  if (services.directory.now.versions.has(subjects.key(FIRST_ACCOUNT, FIRST_KEY))) return null
  return await fullKey(services, { secret: newSecret('jp_live_'), id: FIRST_KEY }, 'First key')
}

/** The operator's own key replaces the one fixed before. */
async function operatorKey (services: Services, secret: string): Promise<null> {
  const hash = sha256Hex(secret)
  const asker = { account: FIRST_ACCOUNT, ...STARTER, by: null }
  for (const key of services.directory.now.keys.values()) {
    if (key.account === FIRST_ACCOUNT && key.id.startsWith(FIXED_KEY) && key.hash !== hash) {
      await revokeKey(services, asker, key.id)
    }
  }
  const known = services.directory.now.keysByHash.get(hash)
  if (known?.hash === hash) return null
  if (known !== undefined) {
    throw new Complaint(`JETPOST_API_KEY is the secret that ${known.id} had before it was rotated: set the new one.`)
  }
  // A value that was revoked and comes back is a new key: its id counts on.
  for (let again = 0;; again++) {
    const id = `${FIXED_KEY}${hash.slice(0, 24)}${again === 0 ? '' : again}`
    if (services.directory.now.versions.has(subjects.key(FIRST_ACCOUNT, id))) continue
    await fullKey(services, { secret, id }, OPERATOR_KEY_NAME)
    return null
  }
}

async function fullKey (
  services: Services,
  given: { secret: string, id: string },
  name: string
): Promise<string | null> {
  const asker = { account: FIRST_ACCOUNT, ...STARTER }
  const test = given.secret.startsWith('jp_test_')
  const made = await unlessThere(
    createKey(
      services,
      asker,
      { name, test, scopes: ['full'], domains: ['*'], expiresMs: null, defaults: NO_DEFAULTS },
      given
    )
  )
  if (made instanceof Refusal) throw new Complaint(made.message)
  return made === null ? null : made.secret
}

/** null when it was there before, or another node was quicker. */
async function unlessThere<T> (creation: Promise<T>): Promise<T | null> {
  try {
    return await creation
  } catch (error) {
    if (error instanceof Conflict) return null
    throw error
  }
}
