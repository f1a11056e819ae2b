import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** PEM. */
export interface Certificate {
  key: string
  cert: string
}

/** An authority that nobody else trusts, and certificates of its for names and addresses,
 *  valid for `days`. */
export function createAuthority (days = 2): { ca: string, certify(...names: string[]): Certificate } {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-ca-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const at = (name: string) => join(folder, name)
  const key = (
    name: string
  ) => ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', at(`${name}.key`)]
  openssl('req', '-x509', ...key('ca'), '-out', at('ca.pem'), '-days', String(days), '-subj', '/CN=Test authority')
  let count = 0
  return {
    ca: readFileSync(at('ca.pem'), 'utf8'),
    certify (...names) {
      const name = `leaf${++count}`
      writeFileSync(
        at(`${name}.ext`),
        `subjectAltName=${names.map(name => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`).join(',')}\n`
      )
      openssl('req', ...key(name), '-out', at(`${name}.csr`), '-subj', `/CN=${names[0]}`)
      openssl(
        'x509',
        '-req',
        '-in',
        at(`${name}.csr`),
        '-CA',
        at('ca.pem'),
        '-CAkey',
        at('ca.key'),
        '-set_serial',
        String(count),
        '-days',
        String(days),
        '-extfile',
        at(`${name}.ext`),
        '-out',
        at(`${name}.pem`)
      )
      return { key: readFileSync(at(`${name}.key`), 'utf8'), cert: readFileSync(at(`${name}.pem`), 'utf8') }
    }
  }
}

function openssl (...args: string[]): void {
  execFileSync('openssl', args, { stdio: 'pipe' })
}
