/** Labels that the WHATWG list does not know, as mail writes them. */
const ALIASES: Record<string, string> = {
  'shift-jis': 'shift_jis',
  cp932: 'shift_jis',
  ms932: 'shift_jis',
  'x-mac-japanese': 'shift_jis',
  'iso-2022-jp-1': 'iso-2022-jp',
  'iso-2022-jp-2': 'iso-2022-jp',
  'iso-2022-jp-ms': 'iso-2022-jp',
  cp50220: 'iso-2022-jp',
  cp50221: 'iso-2022-jp',
  'cn-gb': 'gb18030',
  cp936: 'gb18030',
  'windows-936': 'gb18030',
  'hz-gb-2312': 'gb18030',
  cp950: 'big5',
  'cn-big5': 'big5',
  cp949: 'euc-kr',
  uhc: 'euc-kr',
  ks_c_5601: 'euc-kr',
  eucjp: 'euc-jp',
  'x-eucjp': 'euc-jp',
  latin1: 'windows-1252',
  utf8mb4: 'utf-8',
  'iso-8859-15': 'iso-8859-15',
  'koi8r': 'koi8-r',
  'x-koi8-r': 'koi8-r',
  win1251: 'windows-1251'
}
const SAMPLE_LENGTH = 8192
const ESCAPES_JP = ['\x1b$@', '\x1b$B']
const NON_ASCII = /[^\p{ASCII}]/gu

/** Characters that identify an unlabelled encoding. Chinese is recognized by the words of bounces. */
const GUESSES: Array<[string, RegExp]> = [
  ['shift_jis', /[\u3041-\u3093\u30a1-\u30f6]/g],
  ['euc-jp', /[\u3041-\u3093\u30a1-\u30f6]/g],
  ['gb18030', /[的收件人信退邮不在地址系统您被回原因发送失败无法箱主题时间]/g],
  ['big5', /[的收件人信退郵不在地址系統您被回原因發送失敗無法箱主題時間]/g],
  ['euc-kr', /[가-힣]/g],
  // Accents stand alone among plain letters, Cyrillic words do not.
  ['windows-1251', /[а-яё]{3,40}/g],
  ['koi8-r', /[а-яё]{3,40}/g]
]

/** Text out of octets held one to a character. A label that is absent, unknown or plainly wrong is replaced by a guess.
 *  Linear, throws nothing. */
export function decodeText (octets: string, label: string | null): string {
  if (ESCAPES_JP.some(escape => octets.includes(escape))) return decode(octets, 'iso-2022-jp') ?? octets
  if (octets.search(NON_ASCII) === -1) return octets
  const name = label?.trim().toLowerCase() ?? ''
  const known = ALIASES[name] ?? name
  // Many senders label everything as ASCII or Latin-1.
  if (known !== '' && !/^(us-)?ascii$|^iso-8859-1$|^unknown|^x-unknown|^default/.test(known)) {
    const text = decode(octets, known)
    if (text !== null) return text
  }
  return guess(octets)
}

function guess (octets: string): string {
  const utf8 = decode(octets, 'utf-8', true)
  if (utf8 !== null) return utf8
  const sample = octets.slice(0, SAMPLE_LENGTH)
  const votes = GUESSES.map(([name, telling]) => ({ name, share: share(decode(sample, name) ?? '', telling) })).sort((
    a,
    b
  ) => b.share - a.share)
  const best = votes[0]!.share > 0.3 ? votes[0]!.name : 'windows-1252'
  return decode(octets, best) ?? octets
}

/** The share of such characters in what is not ASCII. */
function share (text: string, telling: RegExp): number {
  const foreign = text.match(NON_ASCII)?.length ?? 0
  return foreign === 0 ? 0 : (text.match(telling) ?? []).join('').length / foreign
}

function decode (octets: string, name: string, fatal = false): string | null {
  try {
    return new TextDecoder(name, { fatal }).decode(Buffer.from(octets, 'latin1'))
  } catch {
    return null
  }
}
