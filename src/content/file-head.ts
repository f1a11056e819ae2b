import { encodedWords, isPrintable, oneLine, quoted } from './headers.ts'

/** A file in a message. */
export interface MessageFile {
  filename: string
  contentType: string
  /** Without its angle brackets; null = nothing in the html points at it. */
  contentId: string | null
  /** Base64 with padding, without line breaks. */
  content: string
}

/** Characters of a parameter's line, of what may be 78 in all. */
const PARAMETER_MAX = 60

/** The headers of a file's part, each with its CRLF. A name of printable ASCII stands in one piece, however long: many
 *  readers cannot put one together. Any other stands in both forms that are read: RFC 2231 in Content-Disposition, as
 *  it should be, and encoded-words in Content-Type, which no standard allows, for Outlook and others that know only
 *  those. */
export function fileHead (
  { filename, contentType, contentId }: MessageFile,
  disposition: 'inline' | 'attachment'
): string {
  const name = oneLine(filename)
  const plain = isPrintable(name)
  return `Content-Type: ${carried(oneLine(contentType))};\r\n name=${
    plain ? quoted(name) : `"${encodedWords(name, PARAMETER_MAX).join('\r\n ')}"`
  }\r\n` +
    'Content-Transfer-Encoding: base64\r\n' +
    `Content-Disposition: ${disposition};\r\n ${plain ? `filename=${quoted(name)}` : extended('filename', name)}\r\n` +
    (contentId === null ? '' : `Content-ID: <${oneLine(contentId)}>\r\n`)
}

/** Messages and multiparts may not go in base64, and in no other way do all files arrive as they left. Source: RFC 2045
 *  6.4, RFC 2046 5.2.1. */
function carried (contentType: string): string {
  return /^(message|multipart)\//i.test(contentType) ? 'application/octet-stream' : contentType
}

/** One parameter, in as many pieces as its lines need. Source: RFC 2231 3 and 4. */
function extended (name: string, value: string): string {
  const pieces = ["UTF-8''"]
  for (const char of value) {
    const escaped = encodeURIComponent(char).replaceAll(
      /['()*]/g,
      mark => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`
    )
    // A character is never split: some readers decode piece by piece.
    if (pieces.at(-1)!.length + escaped.length > PARAMETER_MAX) pieces.push('')
    pieces[pieces.length - 1] += escaped
  }
  return pieces.length === 1
    ? `${name}*=${pieces[0]}`
    : pieces.map((piece, i) => `${name}*${i}*=${piece}`).join(';\r\n ')
}
