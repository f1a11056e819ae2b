import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { makeCertificate, openCertificate, type Certificate, type CertificateOptions } from '#src/base/certificate.ts'
import type { Log } from '#src/base/log.ts'

const CERT = 'submission-cert.pem'
const KEY = 'submission-key.pem'

/** The operator's certificate, or one made once and kept in the data folder: a client that was told to trust it does
 *  so after the next start. Throws Complaint, with the setting's name. */
export async function keptCertificate (
  options: CertificateOptions & { dataDir: string },
  log: Log
): Promise<Certificate> {
  const { tlsCert, tlsKey, dataDir, hostname } = options
  if (tlsCert !== null || tlsKey !== null) return await openCertificate(options)
  const kept = await readKept(dataDir)
  if (kept !== null) return kept
  const made = await makeCertificate(hostname)
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 })
    await writeFile(join(dataDir, KEY), made.key, { mode: 0o600 })
    await writeFile(join(dataDir, CERT), made.cert)
  } catch (error) {
    log.warn({ err: error }, 'the self-signed certificate cannot be kept: the next start makes another')
  }
  return made
}

/** null = there is none that can be used. */
async function readKept (dataDir: string): Promise<Certificate | null> {
  try {
    const [cert, key] = await Promise.all([CERT, KEY].map(async name => await readFile(join(dataDir, name), 'utf8')))
    createSecureContext({ cert, key })
    return { cert: cert!, key: key! }
  } catch {
    return null
  }
}
