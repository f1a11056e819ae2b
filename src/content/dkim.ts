import { createHash, sign, type KeyObject } from 'node:crypto'

export interface DkimSigner {
  /** In A-labels. */
  domain: string
  selector: string
  algorithm: 'rsa-sha256' | 'ed25519-sha256'
  /** The private half. */
  key: KeyObject
}

/** Named once more than they occur, also where they do not: an added one breaks the signature instead of replacing the
 *  signed one in the reader's view. Source: RFC 6376 8.15. */
const SEALED = [
  'From',
  'To',
  'Cc',
  'Subject',
  'Date',
  'Reply-To',
  'Sender',
  'Content-Type',
  'List-Unsubscribe',
  'List-Unsubscribe-Post'
]
/** Signed where they stand. A sender's own (X-…) are not: relays rewrite them, and no receiver decides by them.
 *  Source: RFC 6376 5.4.1, RFC 8058 4, RFC 9477 3.1. */
const SIGNED = [
  'Message-ID',
  'MIME-Version',
  'Content-Transfer-Encoding',
  'Content-ID',
  'In-Reply-To',
  'References',
  'List-Id',
  'Feedback-ID',
  'CFBL-Address',
  'CFBL-Feedback-ID'
]

const LINE_MAX = 76
const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const TAB = 0x09

/** The message with one DKIM-Signature a signer on top, in their order; without signers it is the very message.
 *  relaxed/relaxed, the whole body, no end. `timeS` = Unix seconds. `message` has CRLF line ends only. The bytes are a
 *  pure function of the input. Source: RFC 6376, RFC 8301, RFC 8463. */
export async function signMessage (
  message: Buffer,
  signers: readonly DkimSigner[],
  timeS: number
): Promise<Buffer> {
  if (signers.length === 0) return message
  const { head, body } = halvesOf(message)
  const { names, text } = signedFields(head)
  const bodyHash = createHash('sha256').update(relaxedBody(body)).digest('base64')
  const signatures = await Promise.all(signers.map(async signer => {
    const field = unsigned(signer, timeS, names, bodyHash)
    return `${field}${chunks(await signatureOf(signer, text + relaxedField(field)))}\r\n`
  }))
  return Buffer.concat([Buffer.from(signatures.join(''), 'latin1'), message])
}

/** Fields and body; the empty line between them belongs to neither. */
function halvesOf (message: Buffer): { head: string, body: Buffer } {
  const end = message.indexOf('\r\n\r\n')
  return end === -1
    ? { head: message.toString('latin1'), body: Buffer.alloc(0) }
    : { head: message.toString('latin1', 0, end), body: message.subarray(end + 4) }
}

/** Which fields are signed, by their names in h=, and the text of them that is. Of fields of one name the last stands
 *  first. Source: RFC 6376 5.4.2. */
function signedFields (head: string): { names: string[], text: string } {
  const found = new Map<string, string[]>()
  for (const field of head.split(/\r\n(?![ \t])/)) {
    const line = relaxedField(field)
    const name = line.slice(0, line.indexOf(':'))
    found.set(name, [`${line}\r\n`, ...found.get(name) ?? []])
  }
  const linesOf = (name: string) => found.get(name.toLowerCase()) ?? []
  const names = [
    ...SEALED.flatMap(name => [...linesOf(name), ''].map(() => name)),
    ...SIGNED.flatMap(name => linesOf(name).map(() => name))
  ]
  return { names, text: [...SEALED, ...SIGNED].flatMap(linesOf).join('') }
}

/** The signature's own field up to `b=`, folded. */
function unsigned (
  { domain, selector, algorithm }: DkimSigner,
  timeS: number,
  names: string[],
  bodyHash: string
): string {
  const list = names.map((name, i) => `${i === 0 ? ' h=' : ''}${name}${i === names.length - 1 ? ';' : ':'}`)
  const tags = [
    ' v=1;',
    ` a=${algorithm};`,
    ' c=relaxed/relaxed;',
    ` d=${domain};`,
    ` s=${selector};`,
    ` t=${timeS};`,
    ...list,
    ` bh=${bodyHash};`
  ]
  let text = 'DKIM-Signature:'
  let column = text.length
  for (const tag of tags) {
    const folds = column + tag.length > LINE_MAX
    const part = folds ? ` ${tag.trimStart()}` : tag
    text += folds ? `\r\n${part}` : part
    column = folds ? part.length : column + part.length
  }
  return `${text}\r\n b=`
}

/** Folded to stand behind ` b=`. */
function chunks (base64: string): string {
  const first = LINE_MAX - 3
  return [base64.slice(0, first), ...base64.slice(first).match(/.{1,75}/g) ?? []].join('\r\n ')
}

/** `text` in latin1: a byte is a character. Ed25519 signs the hash of the text, as if that were the message. Source:
 *  RFC 8463 3. */
export function signatureOf (
  { algorithm, key }: Pick<DkimSigner, 'algorithm' | 'key'>,
  text: string
): Promise<string> {
  const bytes = Buffer.from(text, 'latin1')
  return algorithm === 'rsa-sha256'
    ? signApart('sha256', bytes, key)
    : signApart(null, createHash('sha256').update(bytes).digest(), key)
}

/** In base64. On libuv's threads: an RSA signature takes a quarter of a millisecond. */
function signApart (hash: string | null, bytes: Buffer, key: KeyObject): Promise<string> {
  return new Promise((resolve, reject) => {
    sign(
      hash,
      bytes,
      key,
      (error, signature) => (error === null ? resolve(signature.toString('base64')) : reject(error))
    )
  })
}

/** A header field, in latin1 and without its last line end, as `name:value`. Only blanks and tabs count as white space:
 *  a byte of UTF-8 may look like some other. Source: RFC 6376 3.4.2. */
export function relaxedField (field: string): string {
  const at = field.indexOf(':')
  const value = field.slice(at + 1).replaceAll(/(?:[ \t]|\r\n)+/g, ' ')
  return `${field.slice(0, at).replace(/[ \t]+$/, '').toLowerCase()}:${value.replaceAll(/^ | $/g, '')}`
}

/** One pass over the bytes, most of which are above a blank. Source: RFC 6376 3.4.4. */
export function relaxedBody (body: Buffer): Buffer {
  const size = body.length
  const out = Buffer.allocUnsafe(size + 2)
  let at = 0
  let blank = false
  for (let i = 0; i < size; i++) {
    const byte = body[i]!
    if (byte === SPACE || byte === TAB) {
      blank = true
      continue
    }
    if (blank && (byte > SPACE || byte !== CR || body[i + 1] !== LF)) out[at++] = SPACE
    blank = false
    out[at++] = byte
  }
  while (at >= 2 && out[at - 2] === CR && out[at - 1] === LF) at -= 2
  if (at === 0) return out.subarray(0, 0)
  out[at++] = CR
  out[at++] = LF
  return out.subarray(0, at)
}
