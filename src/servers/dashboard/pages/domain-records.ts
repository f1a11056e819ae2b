import { html, type Html } from '#src/base/html.ts'
import type { Domain } from '#src/client/types.ts'
import { badge, codeBlock, copyable, detailList, time } from '../parts.ts'

type DnsRecord = Domain['records'][number]

const PURPOSES: Record<DnsRecord['purpose'], { title: string, why: string }> = {
  dkim: { title: 'DKIM', why: 'Receivers check with it that mail is yours and unchanged.' },
  return_path: {
    title: 'Return path',
    why: 'Bounces come back under your own name, so that SPF speaks for your domain as well.'
  },
  dmarc: {
    title: 'DMARC',
    why:
      'Your word to receivers about mail that fails both checks. Any policy of your own is fine; this one asks for nothing yet.'
  }
}

const STATES: Record<DnsRecord['state'], { word: string, tone: 'good' | 'bad' | 'calm' }> = {
  ok: { word: 'seen', tone: 'good' },
  missing: { word: 'missing', tone: 'bad' },
  wrong: { word: 'differs', tone: 'bad' },
  unchecked: { word: 'not looked for yet', tone: 'calm' }
}

/** A record in one word: what is only advised is no failure. */
function recordBadge ({ state, required }: Pick<DnsRecord, 'state' | 'required'>): Html {
  const { word, tone } = STATES[state]
  return badge(word, tone === 'bad' && !required ? 'warn' : tone)
}

/** `DKIM (RSA)`, as the records of a domain are told apart. */
export function recordTitle ({ purpose, value }: Pick<DnsRecord, 'purpose' | 'value'>): string {
  if (purpose !== 'dkim') return PURPOSES[purpose].title
  return `DKIM (${value.includes('k=ed25519') ? 'Ed25519' : 'RSA'})`
}

/** What is wrong with records in a few words; null = nothing that is required. */
export function problemsOf ({ records }: Pick<Domain, 'records'>): string | null {
  const wrong = records.filter(({ required, state }) => required && state !== 'ok')
  return wrong.length === 0
    ? null
    : wrong.map(record => `${recordTitle(record)}: ${STATES[record.state].word}`).join(', ')
}

/** One record to publish, how it stands, and what to do. */
export function recordCard (record: DnsRecord, domain: string, nowMs: number): Html {
  const { type, name, value, stage, removable_at: until } = record
  const title = recordTitle(record)
  return html`<section class="card record" aria-label="${title}: ${name}">
<div class="head"><h3>${title} ${stageBadge(record)}</h3>${recordBadge(record)}</div>
<p class="hint">${PURPOSES[record.purpose].why}</p>
${stageLine(stage, until, nowMs)}
${
    detailList([
      ['Type', html`<code>${type}</code>`],
      ['Name', copyable(name, `Copy the name of ${title}`)],
      ...withinZones(name, domain, title)
    ])
  }
<div class="value"><p class="hint">Value</p>${codeBlock(value, `Value of ${title}`)}</div>
${stage !== 'removable' && remedyFor(record)}</section>`
}

/** What a record is for just now. */
function stageBadge ({ stage, required }: DnsRecord): Html {
  switch (stage) {
    case 'current':
      return required ? badge('required', 'busy') : badge('advised', 'calm')
    case 'next':
      return badge('new', 'busy')
    case 'previous':
    case 'removable':
      return badge('old', 'calm')
  }
}

function stageLine (stage: DnsRecord['stage'], until: string | null, nowMs: number): Html | null {
  switch (stage) {
    case 'current':
      return null
    case 'next':
      return html`<p class="box calm">Publish it: the new keys sign from the first look that shows the RSA one; until then the old ones do.</p>`
    case 'previous':
      return html`<p class="box calm">Of the old keys: keep it until ${
        time(until, nowMs)
      }, for mail that is still on its way.</p>`
    case 'removable':
      return html`<p class="box calm">Of the old keys, and of no use any more: take it out.</p>`
  }
}

/** What is typed where a provider adds the name of its zone: nobody but the owner knows which zone it is. */
function withinZones (name: string, domain: string, title: string): Array<[string, Html]> {
  return zonesOf(domain).map(
    zone => [
      `Name in the zone ${zone}`,
      copyable(name.slice(0, -zone.length - 1), `Copy the name of ${title} in the zone ${zone}`)
    ]
  )
}

/** Labels below a country's own that names are registered under, as in example.co.uk. */
const REGISTRIES = new Set(['ac', 'co', 'com', 'edu', 'go', 'gov', 'ne', 'net', 'or', 'org'])

/** Where the DNS of a domain may lie: in a zone of its own, or in that of the name that was registered. */
export function zonesOf (domain: string): string[] {
  const labels = domain.split('.')
  const isShared = labels.at(-1)!.length === 2 && REGISTRIES.has(labels.at(-2)!)
  const registered = labels.slice(isShared ? -3 : -2).join('.')
  return registered === domain ? [domain] : [registered, domain]
}

function remedyFor (record: DnsRecord): Html | null {
  const { state, found } = record
  if (state === 'unchecked') return null
  if (state === 'ok') {
    return found.length === 0 || found[0] === record.value
      ? null
      : html`<p class="hint">Found: ${codes(found)}</p>`
  }
  if (state === 'missing') {
    return html`<p class="box warn">Nothing is at this name. If you have just published it, wait: DNS servers remember for a while that there was nothing, mostly 5 minutes
to an hour. If it stays so, look whether your provider added its zone's name twice, or the name was meant for another zone.</p>`
  }
  return html`<div class="box warn"><p>Found instead: ${codes(found)}</p><p>${wrongAdvice(record)}</p></div>`
}

function codes (found: string[]): Html[] {
  return found.map((text, i) => html`${i > 0 && html`<br>`}<code>${text}</code>`)
}

const isCut = (found: string, wanted: string): boolean =>
  found.length >= 200 && wanted.replaceAll(/\s/g, '').startsWith(found.replaceAll(/\s/g, ''))

function wrongAdvice ({ purpose, value, found }: DnsRecord): string {
  switch (purpose) {
    case 'dkim':
      if (found.some(text => isCut(text, value))) {
        return 'It was cut off: the value is longer than 255 characters. Split it into two quoted strings, as in the zone file below.'
      }
      return 'Put the value above in its place, and publish no second record at this name. A change shows once the old one has run out: its TTL, often up to an hour.'
    case 'return_path':
      return "The CNAME leads elsewhere. Let it lead to the value above; a provider's proxy for web sites must be off for this name."
    case 'dmarc':
      return 'A DMARC record begins with v=DMARC1; and has p=none, p=quarantine or p=reject. There must be one at most.'
  }
}

/** Longest string in a TXT record; longer ones are several. Source: RFC 1035 3.3.14. */
const STRING_CHARS_MAX = 255

/** Records as a zone file has them, to be pasted as they are. Source: RFC 1035 5.1. */
export function zoneFile (records: DnsRecord[]): string {
  return records.filter(({ stage }) => stage !== 'removable').map(({ type, name, value }) => {
    const strings = value.match(new RegExp(`.{1,${STRING_CHARS_MAX}}`, 'g')) ?? ['']
    const data = type === 'CNAME'
      ? `${value}.`
      : strings.map(text => `"${text.replaceAll(/["\\]/g, '\\$&')}"`).join(' ')
    return `${name}. 3600 IN ${type} ${strings.length > 1 && type === 'TXT' ? `( ${data} )` : data}`
  }).join('\n')
}
