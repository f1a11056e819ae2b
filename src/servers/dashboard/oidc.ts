import type * as OpenidClient from 'openid-client'
import { foldAddress } from '#streams/user/decide.ts'
import type { UserRole } from '#streams/user/roles.ts'
import type { OidcIdentity } from '#src/actions/user-session.ts'
import type { Config } from '#src/base/config.ts'
import { asError } from '#src/base/errors.ts'
import { isLocalUrl } from '#src/base/mail-links.ts'

/** How people sign in elsewhere, as the settings have it. */
export interface OidcSettings {
  issuer: string
  clientId: string
  /** null = a public client. */
  clientSecret: string | null
  /** Domains whose people need no invitation. */
  allowedDomains: string[]
  /** What they are then. */
  defaultRole: UserRole
}

/** Undefined where people sign in here alone. */
export function oidcSettingsOf (
  { oidcIssuer, oidcClientId, oidcClientSecret, oidcAllowedDomains, oidcDefaultRole }: Config
): OidcSettings | undefined {
  return oidcIssuer === null || oidcClientId === null ? undefined : {
    issuer: oidcIssuer,
    clientId: oidcClientId,
    clientSecret: oidcClientSecret,
    allowedDomains: oidcAllowedDomains,
    defaultRole: oidcDefaultRole as UserRole
  }
}

/** What one sign-in must come back with; kept by the browser, sealed. */
export interface OidcChecks {
  state: string
  nonce: string
  verifier: string
}

/** Each request to the issuer, in seconds. */
const TIMEOUT_S = 10
/** What the issuer says of itself is asked again after so long. */
const METADATA_MS = 3_600_000

/** The OpenID Connect issuer of the settings: authorization code with PKCE, state and nonce. */
export class Oidc {
  readonly settings: OidcSettings
  /** Of the issuer, for people. */
  readonly host: string
  private readonly redirectUri: string
  private known: { configuration: Promise<OpenidClient.Configuration>, untilMs: number } | null = null

  constructor (settings: OidcSettings, publicUrl: string) {
    this.settings = settings
    this.host = new URL(settings.issuer).host
    this.redirectUri = `${publicUrl}/dashboard/oidc/callback`
  }

  /** Why nobody can sign in there now, or null. */
  async fault (): Promise<string | null> {
    return await this.open().then(() => null, error => asError(error).message)
  }

  /** Where the browser goes to sign in, and what it must come back with. `again` = also where it is signed in there.
   *  Throws when the issuer does not answer. */
  async begin (again: boolean): Promise<{ url: URL, checks: OidcChecks }> {
    const { library, configuration } = await this.open()
    const checks = {
      state: library.randomState(),
      nonce: library.randomNonce(),
      verifier: library.randomPKCECodeVerifier()
    }
    const url = library.buildAuthorizationUrl(configuration, {
      redirect_uri: this.redirectUri,
      scope: 'openid email profile',
      code_challenge: await library.calculatePKCECodeChallenge(checks.verifier),
      code_challenge_method: 'S256',
      state: checks.state,
      nonce: checks.nonce,
      ...(again ? { prompt: 'login', max_age: '0' } : {})
    })
    return { url, checks }
  }

  /** Who came back. `query` = of the callback's URL. `ageMs` = how long ago they signed in there, by the issuer's own
   *  clock; null where it does not say. Throws when the issuer refuses, or says what does not fit. */
  async finish (
    query: URLSearchParams,
    { state, nonce, verifier }: OidcChecks
  ): Promise<OidcIdentity & { ageMs: number | null }> {
    const { library, configuration } = await this.open()
    const url = new URL(this.redirectUri)
    url.search = query.toString()
    const tokens = await library.authorizationCodeGrant(configuration, url, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true
    })
    const token = tokens.claims()!
    // Many issuers tell the address there alone.
    const hasMore = token.email === undefined && configuration.serverMetadata().userinfo_endpoint !== undefined
    const more: Record<string, unknown> = hasMore
      ? await library.fetchUserInfo(configuration, tokens.access_token, token.sub)
      : {}
    const { email, email_verified: isVerified, name }: Record<string, unknown> = { ...more, ...token }
    return {
      issuer: token.iss,
      subject: token.sub,
      address: isVerified === true && typeof email === 'string' ? foldAddress(email) : null,
      name: typeof name === 'string' && name.trim() !== '' ? name.trim() : null,
      ageMs: token.auth_time === undefined ? null : (token.iat - token.auth_time) * 1000
    }
  }

  /** The library is loaded when somebody signs in. */
  private async open () {
    const library = await import('openid-client')
    const nowMs = performance.now()
    if (this.known === null || nowMs >= this.known.untilMs) {
      const configuration = this.discover(library)
      this.known = { configuration, untilMs: nowMs + METADATA_MS }
      // It is asked again at the next sign-in.
      configuration.catch(() => {
        this.known = null
      })
    }
    return { library, configuration: await this.known.configuration }
  }

  private async discover (library: typeof OpenidClient): Promise<OpenidClient.Configuration> {
    const { issuer, clientId, clientSecret } = this.settings
    const execute = isLocalUrl(issuer) ? [library.allowInsecureRequests] : []
    const auth = clientSecret === null ? library.None() : secretAuth(library, clientSecret)
    return await library.discovery(new URL(issuer), clientId, {}, auth, { execute, timeout: TIMEOUT_S })
  }
}

/** As the issuer takes it; where it does not say, as the specification has it. Source: OpenID Connect Discovery 3. */
function secretAuth (library: typeof OpenidClient, secret: string): OpenidClient.ClientAuth {
  const [basic, post] = [library.ClientSecretBasic(secret), library.ClientSecretPost(secret)]
  return (server, client, body, headers) => {
    const takes = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const auth = takes.includes('client_secret_basic') ? basic : post
    auth(server, client, body, headers)
  }
}
