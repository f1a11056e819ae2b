import { html, type Html } from '#src/base/html.ts'
import type { Domain } from '#src/client/types.ts'
import { badge, codeBlock, copyable, facts, time } from '../parts.ts'

type DnsRecord = Domain['records'][number]

const PURPOSES: Record<DnsRecord['purpose'], { title: string, why: string }> = {
  dkim: { title: 'DKIM', why: 'Receivers check with it that mail is yours and unchanged.' },
  return_path: { title: 'Return path', why: 'Bounces come back under your own name, so that SPF speaks for your domain as well.' },
  dmarc: { title: 'DMARC', why: 'Your word to receivers about mail that fails both checks. Any policy of your own is fine; this one asks for nothing yet.' }
}

const STATES: Record<DnsRecord['state'], { word: string, tone: 'good' | 'bad' | 'warn' | 'calm' }> = {
  ok: { word: 'seen', tone: 'good' },
  missing: { word: 'missing', tone: 'bad' },
  wrong: { word: 'differs', tone: 'bad' },
  unchecked: { word: 'not looked for yet', tone: 'calm' }
}

/** A record in one word: what is only advised is no failure. */
export function recordBadge ({ state, required }: Pick<DnsRecord, 'state' | 'required'>): Html {
  const { word, tone } = STATES[state]
  return badge(word, tone === 'bad' && !required ? 'warn' : tone)
}

/** `DKIM (RSA)`, as the records of a domain are told apart. */
export function recordTitle ({ purpose, value }: Pick<DnsRecord, 'purpose' | 'value'>): string {
  if (purpose !== 'dkim') return PURPOSES[purpose].title
  return `DKIM (${value.includes('k=ed25519') ? 'Ed25519' : 'RSA'})`
}

/** One record to publish, how it stands, and what to do. */
export function recordCard (record: DnsRecord, domain: string, nowMs: number): Html {
  const { type, name, value, required, stage, removable_at: until } = record
  const title = recordTitle(record)
  const need = stage === 'current' && badge(required ? 'required' : 'advised', required ? 'busy' : 'calm')
  return html`<section class="card record" aria-label="${title}: ${name}">
<div class="head"><h3>${title} ${need}</h3>${recordBadge(stage === 'previous' || stage === 'removable' ? { ...record, required: false } : record)}</div>
<p class="hint">${PURPOSES[record.purpose].why}</p>
${stageLine(stage, until, nowMs)}
${facts([['Type', html`<code>${type}</code>`], ['Name', copyable(name, `Copy the name of ${title}`)], withinZone(name, domain, title)])}
<div class="value"><p class="hint">Value</p>${codeBlock(value, `Value of ${title}`)}</div>
${stage !== 'removable' && remedy(record)}</section>`
}

function stageLine (stage: DnsRecord['stage'], until: string | null, nowMs: number): Html | null {
  switch (stage) {
    case 'current': return null
    case 'next': return html`<p class="box calm">New: publish it. The new keys sign from the first look that shows the RSA one; until then the old ones do.</p>`
    case 'previous': return html`<p class="box calm">Of the old keys: keep it until ${time(until, nowMs)}, for mail that is still on its way.</p>`
    case 'removable': return html`<p class="box calm">Of the old keys, and of no use any more: take it out.</p>`
  }
}

/** Many providers add the domain to what is typed. */
function withinZone (name: string, domain: string, title: string): [string, Html] | null {
  return name.endsWith(`.${domain}`) ? ['Name, where your provider adds the domain', copyable(name.slice(0, -domain.length - 1), `Copy the short name of ${title}`)] : null
}

function remedy (record: DnsRecord): Html | null {
  const { state, found } = record
  if (state === 'unchecked') return null
  if (state === 'ok') return found.length === 0 || found[0] === record.value ? null : html`<p class="hint">Found: ${codes(found)}</p>`
  if (state === 'missing') {
    return html`<p class="box warn">Nothing is at this name. If you have just published it, wait: DNS servers remember for a while that there was nothing, mostly 5 minutes
to an hour. If it stays so, look whether your provider added the domain twice.</p>`
  }
  return html`<div class="box warn"><p>Found instead: ${codes(found)}</p><p>${wrongAdvice(record)}</p></div>`
}

function codes (found: string[]): Html[] {
  return found.map((text, i) => html`${i > 0 && html`<br>`}<code>${text}</code>`)
}

const isCut = (found: string, wanted: string): boolean => found.length >= 200 && wanted.replaceAll(/\s/g, '').startsWith(found.replaceAll(/\s/g, ''))

function wrongAdvice ({ purpose, value, found }: DnsRecord): string {
  switch (purpose) {
    case 'dkim':
      if (found.some(text => isCut(text, value))) return 'It was cut off: the value is longer than 255 characters. Split it into two quoted strings, as in the zone file below.'
      return 'Put the value above in its place, and publish no second record at this name. A change shows once the old one has run out: its TTL, often up to an hour.'
    case 'return_path': return 'The CNAME leads elsewhere. Let it lead to the value above; a provider\'s proxy for web sites must be off for this name.'
    case 'dmarc': return 'A DMARC record begins with v=DMARC1; and has p=none, p=quarantine or p=reject. There must be one at most.'
  }
}

/** Longest string in a TXT record; longer ones are several. Source: RFC 1035 3.3.14. */
const STRING_CHARS_MAX = 255

/** Records as a zone file has them, to be pasted as they are. Source: RFC 1035 5.1. */
export function zoneFile (records: DnsRecord[]): string {
  return records.filter(({ stage }) => stage !== 'removable').map(({ type, name, value }) => {
    const strings = value.match(new RegExp(`.{1,${STRING_CHARS_MAX}}`, 'g')) ?? ['']
    const data = type === 'CNAME' ? `${value}.` : strings.map(text => `"${text.replaceAll(/["\\]/g, '\\$&')}"`).join(' ')
    return `${name}. 3600 IN ${type} ${strings.length > 1 && type === 'TXT' ? `( ${data} )` : data}`
  }).join('\n')
}
