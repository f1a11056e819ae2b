import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { Complaint, errorCode } from './errors.ts'

/** PEM texts. */
export interface Certificate {
  cert: string
  key: string
}

export interface CertificateOptions {
  /** Paths of PEM files; both or neither. */
  tlsCert: string | null
  tlsKey: string | null
  /** The name in a certificate that we make. */
  hostname: string
}

/** Longer than any process runs. Senders to a mail host do not verify its certificate unless a policy tells them to,
 *  and then a self-signed one never does. */
const YEARS = 10

/** The operator's certificate, or one made now and kept in memory alone: the one that smtp-server brings along has a
 *  key that is public. Throws Complaint, with the setting's name. */
export async function openCertificate ({ tlsCert, tlsKey, hostname }: CertificateOptions): Promise<Certificate> {
  if (tlsCert === null && tlsKey === null) return await makeCertificate(hostname)
  if (tlsCert === null || tlsKey === null) {
    throw new Complaint('JETPOST_TLS_CERT and JETPOST_TLS_KEY go together: set both, or neither.')
  }
  const pair = { cert: await readPem('JETPOST_TLS_CERT', tlsCert), key: await readPem('JETPOST_TLS_KEY', tlsKey) }
  try {
    createSecureContext(pair)
  } catch (error) {
    throw new Complaint(`JETPOST_TLS_CERT and JETPOST_TLS_KEY are not a certificate and its key: ${errorCode(error)}.`)
  }
  return pair
}

async function readPem (setting: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new Complaint(`${setting} ${path} cannot be read: ${errorCode(error)}.`)
  }
}

/** Self-signed. */
export async function makeCertificate (hostname: string): Promise<Certificate> {
  // Costs a process a third of a second to load, and most never need it.
  const { generate } = await import('selfsigned')
  const notAfterDate = new Date()
  notAfterDate.setFullYear(notAfterDate.getFullYear() + YEARS)
  const { cert, private: key } = await generate([{ name: 'commonName', value: hostname }], {
    keySize: 2048,
    algorithm: 'sha256',
    notAfterDate
  })
  return { cert, key }
}
