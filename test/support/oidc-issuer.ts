import { createServer } from 'node:http'
import Provider from 'oidc-provider'
import { choosePort } from '#src/embedded/ports.ts'
import { newSecret } from '#src/base/secret.ts'
import type { Page } from './browser.ts'
import type { Ending } from './servers.ts'

/** What an issuer says of somebody. */
export interface Person {
  email?: string
  email_verified?: boolean
  name?: string
}

export interface OidcIssuer {
  url: string
  clientId: string
  clientSecret: string
  /** By the name that they sign in with, which is their subject. */
  people: Map<string, Person>
}

/** A real OpenID Connect issuer (the package oidc-provider) with pages to sign in on; takes PKCE alone. */
export async function startOidcIssuer (t: Ending, redirectUri: string): Promise<OidcIssuer> {
  const url = `http://localhost:${await choosePort(null, null, '')}`
  const people = new Map<string, Person>()
  const [clientId, clientSecret] = ['jetpost', newSecret('')]
  const provider = new Provider(url, {
    clients: [{
      client_id: clientId,
      client_secret: clientSecret,
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code'],
      response_types: ['code']
    }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: async () => ({ sub: id, ...people.get(id) })
    }),
    features: { devInteractions: { enabled: true } },
    pkce: { required: () => true },
    cookies: { keys: [newSecret('')] }
  })
  const server = createServer(provider.callback())
  await new Promise<void>(resolve => server.listen(Number(new URL(url).port), 'localhost', resolve))
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })
  return { url, clientId, clientSecret, people }
}

/** Signs in on the issuer's own pages, and lets Jetpost have what it asks for. */
export async function signInAtIssuer (page: Page, name: string): Promise<void> {
  await page.locator('input[name=login]').fill(name)
  await page.locator('input[name=password]').fill('any')
  await page.locator('button[type=submit]').click()
  await consent(page)
}

/** The issuer asks once for each person. */
export async function consent (page: Page): Promise<void> {
  await page.getByText('Continue').click()
}
