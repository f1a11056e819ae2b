import type * as Webauthn from '@simplewebauthn/server'
import { Refusal, type Unstamped } from '#streams/define.ts'
import { decidePasskeyUse } from '#streams/user/decide.ts'
import type { NewPasskey } from '#streams/user/facts.ts'
import type { UserEntry } from '#streams/user/state.ts'
import type { Services } from '#src/actions/services.ts'
import { newId } from '#src/base/id.ts'
import { CannotOpen } from '#src/base/secret.ts'

/** So long the browser may take. */
const CEREMONY_MS = 5 * 60_000
/** EdDSA, ES256 and RS256: what passkeys sign with. Source: IANA, COSE Algorithms. */
const ALGORITHMS = [-8, -7, -257]
/** What a browser sends of a passkey is smaller. */
const RESPONSE_CHARS_MAX = 64 * 1024

type Purpose = 'sign-in' | 'confirm' | 'add'

/** What was asked of a browser: it brings this back sealed, with the passkey's answer. */
interface Ceremony {
  purpose: Purpose
  challenge: string
  /** The session that a sign-in opens, once; the one that asks, for the others. */
  session: string
  untilMs: number
}

/** What the browser's script needs: its options, and what it sends back beside the answer. */
export interface CeremonyStart {
  options: object
  ceremony: string
}

const EXPIRED = new Refusal('expired_passkey', 'That took too long. Try again.')
const REFUSED = new Refusal('invalid_passkey', 'The passkey was not accepted. Try again, or sign in another way.')

type PasskeyServices = Pick<Services, 'directory' | 'vault' | 'factLog'>

/** Passkeys for the host of JETPOST_PUBLIC_URL. Source: W3C WebAuthn Level 3. */
export class Passkeys {
  private readonly services: PasskeyServices
  private readonly origin: string
  private readonly rpId: string

  constructor (services: PasskeyServices, publicUrl: string) {
    this.services = services
    const { origin, hostname } = new URL(publicUrl)
    this.origin = origin
    this.rpId = hostname
  }

  /** Asks for any passkey of this site to sign in with: nobody types who they are. */
  async startSignIn (): Promise<CeremonyStart> {
    return await this.startUse('sign-in', newId('ses', this.nowMs()), [])
  }

  /** Asks for one of the user's, to confirm a session. */
  async startConfirm (session: string, { passkeys }: UserEntry): Promise<CeremonyStart> {
    return await this.startUse('confirm', session, passkeys.map(({ id }) => ({ id })))
  }

  /** Asks for a new one. */
  async startAdd (session: string, { id, address, name, passkeys }: UserEntry): Promise<CeremonyStart> {
    const { generateRegistrationOptions } = await library()
    const options = await generateRegistrationOptions({
      rpName: 'Jetpost',
      rpID: this.rpId,
      // Comes back at a sign-in: it tells whose the passkey is.
      userID: new TextEncoder().encode(id),
      userName: address,
      userDisplayName: name,
      timeout: CEREMONY_MS,
      attestationType: 'none',
      supportedAlgorithmIDs: ALGORITHMS,
      excludeCredentials: passkeys.map(({ id }) => ({ id })),
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' }
    })
    return { options, ceremony: this.seal('add', options.challenge, session) }
  }

  /** Who signs in by the answer, which session that opens, and what is told of the passkey. */
  async finishSignIn (
    sealed: string,
    response: string
  ): Promise<{ user: UserEntry, session: string, decided: Unstamped[] } | Refusal> {
    const ceremony = this.open('sign-in', sealed)
    if (ceremony === null) return EXPIRED
    const answer = responseIn<Webauthn.AuthenticationResponseJSON>(response)
    const handle = answer?.response.userHandle
    const user = handle === undefined ? undefined : this.userOf(handle)
    if (answer === null || user === undefined) return REFUSED
    const decided = await this.verifyUse(user, ceremony, answer)
    return decided instanceof Refusal ? decided : { user, session: ceremony.session, decided }
  }

  /** What is told of the passkey, when it is the user's and was asked for in this session. */
  async finishConfirm (
    sealed: string,
    response: string,
    session: string,
    user: UserEntry
  ): Promise<Unstamped[] | Refusal> {
    const ceremony = this.open('confirm', sealed)
    if (ceremony === null || ceremony.session !== session) return EXPIRED
    const answer = responseIn<Webauthn.AuthenticationResponseJSON>(response)
    return answer === null ? REFUSED : await this.verifyUse(user, ceremony, answer)
  }

  /** The new passkey, as it is kept. */
  async finishAdd (
    sealed: string,
    response: string,
    session: string,
    name: string
  ): Promise<NewPasskey | Refusal> {
    const ceremony = this.open('add', sealed)
    if (ceremony === null || ceremony.session !== session) return EXPIRED
    const answer = responseIn<Webauthn.RegistrationResponseJSON>(response)
    if (answer === null) return REFUSED
    const { verifyRegistrationResponse } = await library()
    const { registrationInfo } = await verifyRegistrationResponse({
      response: answer,
      ...this.expected(ceremony),
      supportedAlgorithmIDs: ALGORITHMS
    }).catch(() => ({ registrationInfo: undefined }))
    if (registrationInfo === undefined) return REFUSED
    const { credential: { id, publicKey, counter } } = registrationInfo
    return { passkey: id, name, publicKey: Buffer.from(publicKey).toString('base64url'), counter }
  }

  private async startUse (
    purpose: Purpose,
    session: string,
    allowCredentials: Array<{ id: string }>
  ): Promise<CeremonyStart> {
    const { generateAuthenticationOptions } = await library()
    const options = await generateAuthenticationOptions({
      rpID: this.rpId,
      timeout: CEREMONY_MS,
      userVerification: 'required',
      allowCredentials
    })
    return { options, ceremony: this.seal(purpose, options.challenge, session) }
  }

  private async verifyUse (
    user: UserEntry,
    ceremony: Ceremony,
    answer: Webauthn.AuthenticationResponseJSON
  ): Promise<Unstamped[] | Refusal> {
    const passkey = user.passkeys.find(({ id }) => id === answer.id)
    if (passkey === undefined) return REFUSED
    const { verifyAuthenticationResponse } = await library()
    const { expectedChallenge, expectedOrigin, expectedRPID } = this.expected(ceremony)
    const verified = await verifyAuthenticationResponse({
      response: answer,
      expectedChallenge,
      expectedOrigin,
      expectedRPID,
      requireUserVerification: true,
      // The counter is ours to judge: a rule that says what it means.
      credential: { id: passkey.id, publicKey: Buffer.from(passkey.publicKey, 'base64url'), counter: 0 }
    }).catch(() => null)
    if (verified === null || !verified.verified) return REFUSED
    return decidePasskeyUse(user, passkey, verified.authenticationInfo.newCounter)
  }

  private expected ({ challenge }: Ceremony) {
    return {
      expectedChallenge: challenge,
      expectedOrigin: this.origin,
      expectedRPID: this.rpId,
      requireUserVerification: true
    }
  }

  private userOf (handle: string): UserEntry | undefined {
    return this.services.directory.now.users.get(Buffer.from(handle, 'base64url').toString())
  }

  private seal (purpose: Purpose, challenge: string, session: string): string {
    const ceremony: Ceremony = { purpose, challenge, session, untilMs: this.nowMs() + CEREMONY_MS }
    return this.services.vault.seal(JSON.stringify(ceremony), 'passkey')
  }

  /** null = not ours, for something else, or too old. */
  private open (purpose: Purpose, sealed: string): Ceremony | null {
    try {
      const ceremony = JSON.parse(this.services.vault.open(sealed, 'passkey')) as Ceremony
      return ceremony.purpose === purpose && ceremony.untilMs > this.nowMs() ? ceremony : null
    } catch (error) {
      if (error instanceof CannotOpen) return null
      throw error
    }
  }

  private nowMs (): number {
    return this.services.factLog.clock.nowMs()
  }
}

/** It takes a tenth of a second to load, and only who uses a passkey waits for it. */
async function library (): Promise<typeof Webauthn> {
  return await import('@simplewebauthn/server')
}

/** The browser's answer; what is in it the library judges. */
function responseIn<Response extends { id: string, response: object }> (text: string): Response | null {
  if (text.length > RESPONSE_CHARS_MAX) return null
  try {
    const value = JSON.parse(text)
    return typeof value?.id === 'string' && typeof value.response === 'object' && value.response !== null ? value : null
  } catch {
    return null
  }
}

/** Browsers have passkeys where nobody can listen in: for https, and for localhost. An address has none. Source:
 *  WebAuthn 5.1.2, W3C Secure Contexts 3.1. */
export function hasPasskeys (publicUrl: string): boolean {
  const { protocol, hostname } = new URL(publicUrl)
  const isName = !/^[\d.]+$|^\[/.test(hostname)
  return isName && (protocol === 'https:' || hostname === 'localhost' || hostname.endsWith('.localhost'))
}
