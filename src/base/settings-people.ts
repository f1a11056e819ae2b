import {
  hostName,
  issuerUrl,
  list,
  mailAddress,
  mailAddresses,
  oneOf,
  postUrl,
  signingSecret,
  text
} from './config-values.ts'
import type { Config, Setting } from './config-types.ts'

/** Who signs in, and who is told of trouble. */
export const peopleSettings = {
  oidcIssuer: {
    env: 'JETPOST_OIDC_ISSUER',
    means: 'OpenID Connect issuer at which people sign in to the dashboard',
    details: 'Its `/.well-known/openid-configuration` is read. https, but for this machine itself. Register ' +
      '`<JETPOST_PUBLIC_URL>/dashboard/oidc/callback` there. Needs `JETPOST_OIDC_CLIENT_ID`.',
    fallback: null,
    parse: issuerUrl
  },
  oidcClientId: { env: 'JETPOST_OIDC_CLIENT_ID', means: 'id of Jetpost at the issuer', fallback: null, parse: text },
  oidcClientSecret: {
    env: 'JETPOST_OIDC_CLIENT_SECRET',
    means: 'secret of Jetpost at the issuer',
    unset: 'none: a public client with PKCE',
    fallback: null,
    secret: 'whole',
    parse: text
  },
  oidcAllowedDomains: {
    env: 'JETPOST_OIDC_ALLOWED_DOMAINS',
    means: 'mail domains whose people may sign in to the first account without an invitation',
    details: 'A comma-separated list. The issuer must say that the address is verified.',
    unset: 'none: people are invited',
    fallback: [],
    parse: value => list(value).map(hostName)
  },
  oidcDefaultRole: {
    env: 'JETPOST_OIDC_DEFAULT_ROLE',
    means: 'role of people of those domains: owner, developer, support or viewer',
    fallback: 'viewer',
    parse: oneOf('owner', 'developer', 'support', 'viewer')
  },
  alertTo: {
    env: 'JETPOST_ALERT_TO',
    means: 'addresses that get alerts by mail',
    details: 'A comma-separated list, of at most 10. See [alerts](operating.md#alerts). Needs `JETPOST_ALERT_FROM`.',
    unset: 'none',
    fallback: [],
    parse: mailAddresses
  },
  alertFrom: {
    env: 'JETPOST_ALERT_FROM',
    means: 'address that alerts are sent from',
    details: 'On a domain of the first account.',
    fallback: null,
    parse: mailAddress
  },
  alertUrl: {
    env: 'JETPOST_ALERT_URL',
    means: 'URL that alerts are posted to, signed like webhooks',
    details: 'Needs `JETPOST_ALERT_SECRET`. `JETPOST_WEBHOOK_ALLOW_PRIVATE` holds for it, too.',
    fallback: null,
    secret: 'whole',
    parse: postUrl
  },
  alertSecret: {
    env: 'JETPOST_ALERT_SECRET',
    means: 'secret that signs posted alerts',
    details: '`whsec_` and the base64 of 24 to 64 random bytes: `echo whsec_$(openssl rand -base64 32)`.',
    fallback: null,
    secret: 'whole',
    parse: signingSecret
  }
} satisfies { [Name in keyof Config]?: Setting<Config[Name]> }
