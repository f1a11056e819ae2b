import { createPublicKey } from 'node:crypto'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import {
  countFault,
  decideChange,
  decideDelete,
  decideRotation,
  settingsFault,
  type FeedbackSourceDecision
} from '#streams/feedback-source/decide.ts'
import { FeedbackSourceCreated, type FeedbackMapping, type FeedbackProvider } from '#streams/feedback-source/facts.ts'
import type { FeedbackSourceEntry } from '#streams/feedback-source/state.ts'
import { nameFault } from '#streams/key/decide.ts'
import { newId } from '#src/base/id.ts'
import { newSecret, sha256Hex } from '#src/base/secret.ts'
import { askedBy, stamp } from './fact-log.ts'
import { createEntity, handleCommand, type CommandServices, type Handled } from './handle-command.ts'
import type { Commander, Services } from './services.ts'

export type FeedbackSourceServices = CommandServices & Pick<Services, 'vault'>

/** `secret` is the end of its URL, shown now and never again. */
export type OpenFeedbackSource = Handled<'feedbackSource'> & { secret: string }

/** What an operator sets of a source. */
export interface FeedbackSourceWish {
  name: string
  verificationKey: string | null
  topicArn: string | null
  mapping: FeedbackMapping | null
}

export interface NewFeedbackSource extends FeedbackSourceWish {
  provider: FeedbackProvider
  /** null = all accounts. */
  onlyAccount: string | null
}

const KEY_LENGTH_MAX = 2000

/** Makes a source with a URL of its own. Throws LogUnavailable. */
export async function createFeedbackSource (
  services: FeedbackSourceServices,
  by: Commander,
  { provider, name, verificationKey, topicArn, mapping, onlyAccount }: NewFeedbackSource
): Promise<OpenFeedbackSource | Refusal> {
  const { now } = services.directory
  const fault = nameFault(name) ??
    settingsFault(provider, { hasKey: verificationKey !== null, topicArn, mapping }) ??
    keyFault(provider, verificationKey) ?? accountFault(onlyAccount, now.accounts) ??
    countFault(now.feedbackSources.size)
  if (fault !== null) return fault
  const nowMs = services.factLog.clock.nowMs()
  const id = newId('fs', nowMs)
  const secret = newSecret('')
  const sealedKey = verificationKey === null ? null : services.vault.seal(verificationKey, id)
  const data = { source: id, provider, name, sealedKey, topicArn, mapping, hash: sha256Hex(secret), onlyAccount }
  const fact = stamp(FeedbackSourceCreated, askedBy({ ...by, account: FIRST_ACCOUNT }), data, nowMs)
  return { ...await createEntity(services, 'feedbackSource', id, fact), secret }
}

/** A key that can verify nothing would refuse every report, silently. */
function keyFault (provider: FeedbackProvider, key: string | null): Refusal | null {
  if (key === null) return null
  if (key === '' || key.length > KEY_LENGTH_MAX) {
    return new Refusal('invalid_verification_key', `verification_key must have 1 to ${KEY_LENGTH_MAX} characters.`)
  }
  if (provider !== 'sendgrid') return null
  try {
    publicKeyOf(key)
    return null
  } catch {
    return new Refusal('invalid_verification_key', 'verification_key must be the public key that SendGrid shows.')
  }
}

/** Of SendGrid's signed event webhook: DER in base64. Throws when it is none. */
export function publicKeyOf (text: string) {
  const key = createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' })
  if (key.asymmetricKeyType !== 'ec') throw new Error('not an elliptic curve key')
  return key
}

function accountFault (id: string | null, accounts: ReadonlyMap<string, unknown>): Refusal | null {
  return id === null || accounts.has(id)
    ? null
    : new Refusal('invalid_only_account', 'only_account must be the id of an account.')
}

/** Changes what is given. Throws LogUnavailable or Conflict. */
export async function changeFeedbackSource (
  services: FeedbackSourceServices,
  by: Commander,
  id: string,
  { name, verificationKey, ...rest }: Partial<FeedbackSourceWish>
): Promise<Handled<'feedbackSource'> | Refusal> {
  const provider = services.directory.now.feedbackSources.get(id)?.provider
  const fault = (name === undefined ? null : nameFault(name)) ??
    (provider === undefined ? null : keyFault(provider, verificationKey ?? null))
  if (fault !== null) return fault
  return await change(services, by, id, source =>
    decideChange(source, {
      ...rest,
      ...(name === undefined ? {} : { name }),
      ...(verificationKey === undefined ? {} : { sealedKey: sealed(services, source, verificationKey) })
    }))
}

/** The same key is left as it is sealed: nothing changes then. */
function sealed ({ vault }: FeedbackSourceServices, { id, sealedKey }: FeedbackSourceEntry, key: string | null) {
  if (key === null) return null
  return sealedKey !== null && vault.open(sealedKey, id) === key ? sealedKey : vault.seal(key, id)
}

/** Gives a source a new URL; the one before works for 24 hours. Throws LogUnavailable or Conflict. */
export async function rotateFeedbackSource (
  services: CommandServices,
  by: Commander,
  id: string
): Promise<OpenFeedbackSource | Refusal> {
  const secret = newSecret('')
  const rotated = await change(services, by, id, (source, nowMs) => decideRotation(source, sha256Hex(secret), nowMs))
  return rotated instanceof Refusal ? rotated : { ...rotated, secret }
}

/** Ends a source: its URL is one that nobody has. Throws LogUnavailable or Conflict. */
export async function deleteFeedbackSource (
  services: CommandServices,
  by: Commander,
  id: string
): Promise<Handled<'feedbackSource'> | Refusal> {
  return await change(services, by, id, decideDelete)
}

async function change (
  services: CommandServices,
  by: Commander,
  id: string,
  decide: (source: FeedbackSourceEntry, nowMs: number) => FeedbackSourceDecision[] | Refusal
): Promise<Handled<'feedbackSource'> | Refusal> {
  return await handleCommand(
    services,
    'feedbackSource',
    id,
    askedBy({ ...by, account: FIRST_ACCOUNT }),
    (source, nowMs) =>
      source === undefined ? new Refusal('not_found', `There is no feedback source ${id}.`) : decide(source, nowMs)
  )
}
