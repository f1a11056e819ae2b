import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'
import type { Ending } from './servers.ts'

export interface RelayServer {
  port: number
  /** Who has logged in, or tried to, as `user:password`. */
  logins: string[]
  /** SMTP_URL of it. */
  url(user: string, password: string, options?: string): string
}

/** A relay that wants a login, and knows `u` with `hunter2`. With a certificate it has STARTTLS. */
export async function openRelay (t: Ending, tls: { key: string, cert: string } | null = null): Promise<RelayServer> {
  const logins: string[] = []
  const server = new SMTPServer({
    ...tls,
    ...tls === null ? { disabledCommands: ['STARTTLS'] } : {},
    allowInsecureAuth: true,
    onAuth ({ username, password }, _session, done) {
      logins.push(`${username}:${password}`)
      if (username === 'u' && password === 'hunter2') done(null, { user: username })
      else done(new Error('Who are you?'))
    }
  })
  server.on('error', () => {})
  const listener = server.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => new Promise<void>(resolve => server.close(resolve)))
  const { port } = listener.address() as AddressInfo
  return {
    port,
    logins,
    url: (user, password, options = '') => `smtp://${user}:${password}@127.0.0.1:${port}${options}`
  }
}
