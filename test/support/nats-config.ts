/** Accounts of the test server. Each app takes one and gives none back, so this bounds the apps of one run. */
export const ACCOUNTS_MAX = 1024

/** The names of all accounts; user and account are called the same. */
export function accountNames (): string[] {
  return Array.from({ length: ACCOUNTS_MAX }, (_, index) => `a${index}`)
}

/**
 * The test server's configuration: durable like production, and one JetStream account an app, so that streams keep
 * the very names they have in production and no two tests see each other.
 *
 * The store limits are fantasy numbers: they only bound what streams may reserve, and hundreds of apps reserve
 * what one installation would.
 */
export function natsConfig (listen: string, storeDir: string, password: string): string {
  const accounts = accountNames().map(name =>
    `  ${name} { jetstream: enabled, users: [{ user: ${name}, password: "${password}" }] }`
  )
  return [
    `listen: "${listen}"`,
    'max_payload: 8MB',
    'max_pending: 256MB',
    'write_deadline: "30s"',
    `jetstream { store_dir: "${storeDir}", sync_interval: always, max_memory_store: 1TB, max_file_store: 100TB }`,
    'accounts {',
    ...accounts,
    '}',
    ''
  ].join('\n')
}
