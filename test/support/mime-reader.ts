/** One part as a strict reader sees it: nothing is guessed, whatever is out of order throws. */
export interface ReadPart {
  /** Unfolded, in order. */
  headers: Array<{ name: string, value: string }>
  type: string
  parameters: Record<string, string>
  disposition: string | null
  filename: string | null
  contentId: string | null
  parts: ReadPart[]
  /** Decoded; empty when there are parts. */
  body: Buffer
}

/** Reads a message by RFC 5322, 2045, 2046, 2047 and 2231, of which it knows just what Jetpost may write. A second
 *  opinion beside postal-mime's. */
export function readMessage (raw: Buffer): ReadPart {
  const text = raw.toString('latin1')
  if (/[^\r]\n|\r[^\n]/.test(text) || !text.endsWith('\r\n')) throw new Error('a bare CR or LF')
  return readPart(text.slice(0, -2))
}

function readPart (text: string): ReadPart {
  const end = text.indexOf('\r\n\r\n')
  const lines = text.slice(0, end).replaceAll(/\r\n(?=[ \t])/g, '').split('\r\n')
  const headers = lines.map(line => {
    const [, name, value] = /^([!-9;-~]+): ?(.*)$/.exec(line) ?? fail(`no header: ${line}`)
    return { name: name!, value: value! }
  })
  const one = (name: string): string | null => {
    const found = headers.filter(header => header.name.toLowerCase() === name)
    return found.length > 1 ? fail(`${name} twice`) : found[0]?.value ?? null
  }
  const { value: type, parameters } = readParameters(one('content-type') ?? fail('no Content-Type'))
  const disposition = readParameters(one('content-disposition') ?? '')
  const body = text.slice(end + 4)
  return {
    headers,
    type,
    parameters,
    disposition: disposition.value || null,
    filename: disposition.parameters.filename ?? null,
    contentId: /^<(.*)>$/.exec(one('content-id') ?? '')?.[1] ?? null,
    parts: type.startsWith('multipart/') ? split(body, parameters.boundary!).map(readPart) : [],
    body: type.startsWith('multipart/') ? Buffer.alloc(0) : decode(one('content-transfer-encoding') ?? '', body)
  }
}

function split (body: string, boundary: string): string[] {
  const pieces = `\r\n${body}`.split(`\r\n--${boundary}`)
  if (pieces.length < 3 || pieces[0] !== '' || pieces.at(-1) !== '--') {
    throw new Error('a multipart with a preamble, an epilogue or without an end')
  }
  return pieces.slice(1, -1).map(piece => piece.startsWith('\r\n') ? piece.slice(2) : fail('a boundary that goes on'))
}

function decode (encoding: string, body: string): Buffer {
  if (encoding === 'base64') {
    const lines = body.split('\r\n')
    if (lines.slice(0, -1).some(line => line.length !== 76) || /[^A-Za-z0-9+/=\r\n]/.test(body)) {
      throw new Error('base64 in uneven lines')
    }
    return Buffer.from(lines.join(''), 'base64')
  }
  if (encoding !== 'quoted-printable' || /=(?!\r\n|[0-9A-F]{2})|[\t ](\r\n|$)/.test(body)) {
    throw new Error(`no ${encoding}`)
  }
  return Buffer.from(
    body.replaceAll('=\r\n', '').replaceAll(/=(..)/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1'
  )
}

const PARAMETER = /;\s*([\w*!#$%&'+.^`{|}~-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/g
/** Source: RFC 2231 7, attribute-char and percent-encoded octets. */
const EXTENDED = /^UTF-8''((?:[\w!#$&+.^`{|}~-]|%[0-9A-F]{2})*)$/

function readParameters (value: string): { value: string, parameters: Record<string, string> } {
  const first = value.split(';', 1)[0]!
  const given = [...value.matchAll(PARAMETER)]
  if (given.map(match => match[0]).join('') !== value.slice(first.length)) throw new Error(`parameters: ${value}`)
  const plain = new Map<string, string>()
  const extended = new Map<string, string[]>()
  for (const [, key, string, token] of given) {
    const [name, piece] = key!.split('*')
    const pieces = extended.get(name!) ?? []
    if (plain.has(name!) || (piece ? piece !== String(pieces.length) : pieces.length > 0)) {
      fail(`${key} is not the next`)
    }
    if (piece === undefined) plain.set(name!, string?.replaceAll(/\\(.)/g, '$1') ?? token!)
    else extended.set(name!, [...pieces, token!])
  }
  for (const [name, pieces] of extended) {
    const text = pieces.join('')
    plain.set(name, decodeURIComponent((EXTENDED.exec(text) ?? fail(`${name}: ${text}`))[1]!))
  }
  return { value: first, parameters: Object.fromEntries(plain) }
}

/** Text with encoded-words as what it says. Source: RFC 2047 6. */
export function readWords (text: string): string {
  return text.replaceAll(/(\?=) (?==\?)/g, '$1').replaceAll(/(=\?UTF-8\?[BQ]\?[^\s?]*\?=)+/g, words => {
    const bytes = words.match(/=\?UTF-8\?[BQ]\?[^\s?]*\?=/g)!.map(word => {
      const content = word.slice(10, -2)
      return word[8] === 'B'
        ? Buffer.from(content, 'base64')
        : decode('quoted-printable', content.replaceAll('_', '=20'))
    })
    return Buffer.concat(bytes).toString()
  })
}

function fail (message: string): never {
  throw new Error(message)
}
