import { execFileSync } from 'node:child_process'
import { createAuthority } from './certificates.ts'

/** A message as a client hands it in, and which of its fields do not arrive, or arrive otherwise. */
export interface Sample {
  raw: Buffer
  from?: string
  /** Beside the one that the test gives it. */
  more?: string[]
  utf8?: boolean
  gone?: string[]
  /** Fields of ours that it has itself. */
  own?: string[]
  /** Fields whose bytes may change although they are the client's. */
  otherwise?: string[]
}

const FROM = 'hello@shop.example'
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const lines = (...all: string[]) => all.join('\r\n')
const head = (...more: string[]) => [
  `From: Shop <${FROM}>`,
  'To: Ada <ada@example.net>',
  'Subject: Hello',
  'Message-ID: <client-1@shop.example>',
  'Date: Sat, 21 Nov 2026 12:00:00 +0100',
  'MIME-Version: 1.0',
  ...more
]

type Encoding = 'utf8' | 'latin1'

function sample (fields: string[], body: string[], rest: Omit<Sample, 'raw'> & { encoding?: Encoding } = {}): Sample {
  const { encoding = 'utf8', ...others } = rest
  return { raw: Buffer.from(`${lines(...fields, '', ...body)}\r\n`, encoding), ...others }
}

/** `parts` = each with its header, an empty line and its body. */
function multipart (type: string, boundary: string, ...parts: string[][]): string[] {
  return [
    `Content-Type: multipart/${type}; boundary="${boundary}"`,
    '',
    ...parts.flatMap(part => [`--${boundary}`, ...part]),
    `--${boundary}--`
  ]
}

function whole (type: string, boundary: string, parts: string[][], rest: Omit<Sample, 'raw'> = {}): Sample {
  const [field, , ...body] = multipart(type, boundary, ...parts)
  return sample(head(field!), body, rest)
}

const TEXT = ['Content-Type: text/plain; charset=utf-8', '', 'Hello Ada']
const HTML = [
  'Content-Type: text/html; charset=utf-8',
  'Content-Transfer-Encoding: quoted-printable',
  '',
  '<p>Hello =E2=9C=93 <a href=3D"https://shop.example/a?b=3D1&amp;c=3D2">Shop</a=',
  '></p><img src=3D"cid:logo@shop">'
]
const LOGO = [
  'Content-Type: image/png; name="logo.png"',
  'Content-Transfer-Encoding: base64',
  'Content-ID: <logo@shop>',
  'Content-Disposition: inline; filename="logo.png"',
  '',
  PIXEL
]
const FILE = [
  'Content-Type: application/pdf',
  'Content-Transfer-Encoding: base64',
  'Content-Disposition: attachment;',
  " filename*0*=UTF-8''Rechnung%20f%C3%BCr;",
  ' filename*1*=%20Ada.pdf',
  '',
  'JVBERi0xLjQK',
  'JSVFT0YK'
]
const EVENT = [
  'Content-Type: text/calendar; charset=utf-8; method=REQUEST',
  '',
  'BEGIN:VCALENDAR',
  'VERSION:2.0',
  'METHOD:REQUEST',
  'END:VCALENDAR'
]

/** Signed, and encrypted, by openssl. */
function smime (...args: string[]): Sample {
  const { key, cert } = createAuthority().certify('shop.example')
  const pem = `${key}${cert}`
  const bash = 'openssl smime "$@" -signer <(printf %s "$PEM") -inkey <(printf %s "$PEM")'
  const sealed = 'openssl cms "$@" <(printf %s "$PEM")'
  const input = lines('Content-Type: text/html; charset=utf-8', '', '<a href="https://shop.example/">Hi</a>', '')
  const command = args.includes('-sign') ? bash : sealed
  const out = execFileSync('bash', ['-c', command, 'bash', ...args, '-crlfeol'], {
    input,
    env: { ...process.env, PEM: pem }
  }).toString('latin1')
  const text = out.replaceAll(/\r?\n/g, '\r\n')
  const fields = head().filter(field => !field.startsWith('MIME-Version'))
  return { raw: Buffer.from(`${lines(...fields)}\r\n${text}`, 'latin1') }
}

const recipients = (count: number) => Array.from({ length: count }, (_, i) => `crowd${i}@example.net`)

/** By what is special about each. */
export const corpus: Record<string, () => Sample> = {
  'plain text': () => sample(head('Content-Type: text/plain'), ['Hello']),
  'html alone': () => sample(head(...HTML.slice(0, 2)), HTML.slice(3)),
  'text and html': () => whole('alternative', 'b1', [TEXT, HTML]),
  'html with a picture': () => whole('related', 'b1', [HTML, LOGO]),
  'mixed, related, alternative': () =>
    whole('mixed', 'b1', [multipart('alternative', 'b1-x', TEXT, multipart('related', 'b1-x-y', HTML, LOGO)), FILE]),
  'an invitation': () => whole('mixed', 'b1', [multipart('alternative', 'b2', TEXT, HTML, EVENT), FILE]),
  'S/MIME, signed': () => smime('-sign'),
  'S/MIME, signed, opaque': () => smime('-sign', '-nodetach'),
  'S/MIME, encrypted': () => smime('-encrypt', '-aes256'),
  'PGP/MIME, signed': () =>
    sample(
      head('Content-Type: multipart/signed; micalg=pgp-sha512; protocol="application/pgp-signature"; boundary=sig'),
      [
        'This is an OpenPGP/MIME signed message (RFC 4880 and 3156)',
        '--sig',
        ...HTML,
        '--sig',
        'Content-Type: application/pgp-signature; name="OpenPGP_signature.asc"',
        '',
        '-----BEGIN PGP SIGNATURE-----',
        '',
        'wsB5BAABCAAjFiEE',
        '=AbCd',
        '-----END PGP SIGNATURE-----',
        '--sig--'
      ]
    ),
  'PGP/MIME, encrypted': () =>
    sample(head('Content-Type: multipart/encrypted; protocol="application/pgp-encrypted"; boundary="enc"'), [
      '--enc',
      'Content-Type: application/pgp-encrypted',
      '',
      'Version: 1',
      '',
      '--enc',
      'Content-Type: application/octet-stream; name="encrypted.asc"',
      '',
      '-----BEGIN PGP MESSAGE-----',
      '',
      'hQIMA+wE1QvQ',
      '-----END PGP MESSAGE-----',
      '--enc--'
    ]),
  '8-bit UTF-8': () =>
    sample(head('Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: 8bit'), ['Grüße ✓']),
  '8-bit Latin-1': () =>
    sample(head('Content-Type: text/plain; charset=iso-8859-1', 'Content-Transfer-Encoding: 8bit'), ['Gr\xfc\xdfe'], {
      encoding: 'latin1'
    }),
  'addresses beyond ASCII': () =>
    sample([...head().slice(2), 'From: Grüße <grüße@shop.example>', 'To: jörg@example.net'], ['Hello'], {
      from: 'grüße@shop.example',
      more: ['jörg@example.net'],
      utf8: true
    }),
  'a subject in bare UTF-8': () => sample([...head(), 'X-Name: Grüße'], ['Hello'], { utf8: true }),
  'a header in bare Latin-1': () =>
    sample([...head(), 'X-Name: Gr\xfc\xdfe'], ['Hello'], { encoding: 'latin1', otherwise: ['x-name'] }),
  'lines of 998': () => sample(head(), ['x'.repeat(998), 'y'.repeat(998)]),
  'lines of 5,000': () => sample(head(), ['x'.repeat(5000)]),
  '100 recipients with Bcc': () =>
    sample([...head(), `Cc: ${recipients(40).join(',\r\n ')}`, `Bcc: ${recipients(99).slice(40).join(', ')}`], ['Hi'], {
      more: recipients(99),
      gone: ['bcc']
    }),
  'its own way to unsubscribe': () =>
    sample(
      head('List-Unsubscribe: <https://shop.example/u/1>', 'List-Unsubscribe-Post: List-Unsubscribe=One-Click'),
      ['Hi']
    ),
  '20 MB': () =>
    whole('mixed', 'b1', [TEXT, [
      ...FILE.slice(0, 6),
      Array<string>(270_000).fill('QUJD'.repeat(19)).join('\r\n')
    ]]),
  'its own Feedback-ID': () => sample(head('Feedback-ID: a:b:c:shop'), ['Hi'], { own: ['feedback-id'] }),
  'a signature of its own': () =>
    sample(['DKIM-Signature: v=1; a=rsa-sha256; d=shop.example; s=x;', ' b=abc', ...head()], ['Hi'], {
      gone: ['dkim-signature']
    }),
  'traces of its way': () =>
    sample(
      ['Return-Path: <x@shop.example>', 'Received: from a by b;', '\tSat, 21 Nov 2026 12:00:00 +0100', ...head()],
      [
        'Hi'
      ],
      { gone: ['return-path'] }
    ),
  'no Message-ID and no Date': () => sample([`From: ${FROM}`, 'Subject: x'], ['Hi']),
  'folded with tabs and blanks': () => sample([...head(), 'X-Long:  a', '\tb', '   c  ', 'x-LOWER:no-blank'], ['Hi']),
  'encoded-words': () =>
    sample([...head(), 'X-Words: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=', ' =?iso-8859-1?B?R3L832U=?='], ['Hi']),
  'names by RFC 2231': () => whole('mixed', 'b1', [TEXT, FILE]),
  'a mail within': () =>
    whole('mixed', 'b1', [TEXT, [
      'Content-Type: message/rfc822',
      '',
      'From: a@b.example',
      'Bcc: c@d.example',
      '',
      'In'
    ]]),
  'a digest': () => whole('digest', 'b1', [['', 'From: a@b.example', '', 'One'], ['', 'From: c@d.example', '', 'Two']]),
  'a report': () =>
    whole('report; report-type=delivery-status', 'b1', [
      TEXT,
      ['Content-Type: message/delivery-status', '', 'Reporting-MTA: dns; mx.example', '', 'Action: failed']
    ]),
  'no body': () => sample(head(), ['']),
  'dots': () => sample(head(), ['.', '..', '. x', 'a', '.']),
  'blanks at the ends of lines': () => sample(head(), ['a  ', '\tb\t', ' ', '', '', '']),
  'before and after the parts': () => {
    const [field, , ...body] = multipart('mixed', 'b1', TEXT)
    return sample(head(field!), ['A preamble', ...body, 'An epilogue'])
  },
  'format=flowed': () => sample(head('Content-Type: text/plain; format=flowed; delsp=yes'), ['Hello ', 'Ada', '-- ']),
  'a thread of a list': () =>
    sample(
      head('In-Reply-To: <a@shop.example>', 'References: <a@shop.example>', ' <b@shop.example>', 'List-Id: <l.shop>'),
      ['Hi']
    ),
  'made by a program': () => sample(head('Auto-Submitted: auto-generated', 'Precedence: bulk', 'X-Mailer: x'), ['Hi']),
  'a multipart without its boundary': () => sample(head('Content-Type: multipart/mixed'), ['--b1', '', 'Hi', '--b1--']),
  'a boundary of regular characters': () => whole('mixed', '=_(a+b)?.*', [TEXT, FILE]),
  'nobody named': () =>
    sample([...head().filter(field => !field.startsWith('To')), 'To: undisclosed-recipients:;'], ['Hi']),
  'commands': () =>
    sample(
      [
        'X-PM-Tag: a',
        'X-Tag: b',
        'X-Mailgun-Tag: c',
        'X-Jetpost-Tag: d',
        'X-SMTPAPI: {"category":["e"],"unique_args":{"f":"g"}}',
        'X-PM-Metadata-Order: 77',
        'X-Metadata-color: blue',
        'X-Jetpost-Metadata-a: b',
        'X-SES-MESSAGE-TAGS: campaign=spring, audience=all',
        'X-Mailgun-Variables: {"n":1,"o":{"p":2}}',
        'X-PM-Message-Stream: outbound',
        'X-SES-CONFIGURATION-SET: all',
        'CFBL-Address: fbl@other.example',
        ...head()
      ],
      ['Hi'],
      {
        gone: [
          'x-pm-tag',
          'x-tag',
          'x-mailgun-tag',
          'x-jetpost-tag',
          'x-smtpapi',
          'x-pm-metadata-order',
          'x-metadata-color',
          'x-jetpost-metadata-a',
          'x-ses-message-tags',
          'x-mailgun-variables',
          'x-pm-message-stream',
          'x-ses-configuration-set'
        ]
      }
    )
}
