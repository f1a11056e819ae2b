import { html, type Html } from '#src/base/html.ts'
import type { Domain } from '#src/client/types.ts'
import { badge, codeBlock, copyable, detailList, time } from '../parts.ts'

type DnsRecord = Domain['records'][number]

const PURPOSES: Record<DnsRecord['purpose'], { title: string, why: string }> = {
  dkim: { title: 'DKIM', why: 'Receivers use it to verify that an email is yours and unchanged.' },
  return_path: {
    title: 'Return path',
    why: 'Bounces come back under your own name, so that SPF passes for your domain.'
  },
  spf: {
    title: 'SPF',
    why: 'Says which servers send for the domain of the return path. Add what else sends for it.'
  },
  dmarc: {
    title: 'DMARC',
    why: 'Your policy for emails that fail both checks. This one asks for no action; any other policy works as well.'
  }
}

const STATES: Record<DnsRecord['state'], { word: string, tone: 'good' | 'bad' | 'calm' }> = {
  ok: { word: 'correct', tone: 'good' },
  missing: { word: 'missing', tone: 'bad' },
  wrong: { word: 'wrong', tone: 'bad' },
  unchecked: { word: 'not checked yet', tone: 'calm' }
}

/** A record's state; a recommended record that is missing is no failure. */
function recordBadge ({ state, required }: Pick<DnsRecord, 'state' | 'required'>): Html {
  const { word, tone } = STATES[state]
  return badge(word, tone === 'bad' && !required ? 'warn' : tone)
}

/** `DKIM (RSA)`, `Return path`. */
export function recordTitle ({ purpose, value }: Pick<DnsRecord, 'purpose' | 'value'>): string {
  if (purpose !== 'dkim') return PURPOSES[purpose].title
  return `DKIM (${value.includes('k=ed25519') ? 'Ed25519' : 'RSA'})`
}

/** What is wrong with required records, in a few words; null = nothing. */
export function problemsOf ({ records }: Pick<Domain, 'records'>): string | null {
  const wrong = records.filter(({ required, state }) => required && state !== 'ok')
  return wrong.length === 0
    ? null
    : wrong.map(record => `${recordTitle(record)}: ${STATES[record.state].word}`).join(', ')
}

/** One record to publish, with its state and what to do about it. */
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

/** Whether a record is required, recommended, new or old. */
function stageBadge ({ stage, required }: DnsRecord): Html {
  switch (stage) {
    case 'current':
      return required ? badge('required', 'busy') : badge('recommended', 'calm')
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
      return html`<p class="box calm">Publish this record. The new keys sign once DNS has the RSA record; until then the
old keys do.</p>`
    case 'previous':
      return html`<p class="box calm">Of the old keys. Keep this record until ${time(until, nowMs)}, for emails on their
way.</p>`
    case 'removable':
      return html`<p class="box calm">Of the old keys. You can delete this record.</p>`
  }
}

/** The name without its zone, for providers that add the zone's name. Only the owner knows which zone it is. */
function withinZones (name: string, domain: string, title: string): Array<[string, Html]> {
  return zonesOf(domain).map(
    zone => [
      `Name in the zone ${zone}`,
      copyable(name.slice(0, -zone.length - 1), `Copy the name of ${title} in the zone ${zone}`)
    ]
  )
}

/** Second-level labels that names are registered under, as in example.co.uk. */
const REGISTRIES = new Set(['ac', 'co', 'com', 'edu', 'go', 'gov', 'ne', 'net', 'or', 'org'])

/** The zones that may hold a domain's records: its own, or that of the registered name. */
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
    return html`<p class="box warn">DNS has no record with this name. If you have just published it, wait: DNS servers
cache for 5 minutes to an hour that there was none. If it stays missing, check whether your provider added the zone's
name twice, or whether the name is in another zone.</p>`
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
        return 'The value was cut off: it is longer than 255 characters. ' +
          'Split it into two quoted strings, as in the zone file below.'
      }
      return 'Replace it with the value above, and publish no second record with this name. ' +
        'DNS shows the change after the TTL of the old record, often up to an hour.'
    case 'return_path':
      return 'The CNAME must point to the value above. Turn off web proxying for this name at your provider.'
    case 'spf':
      return 'An SPF record begins with v=spf1. There must be only one: put all that send into it.'
    case 'dmarc':
      return 'A DMARC record must begin with v=DMARC1; and have p=none, p=quarantine or p=reject. ' +
        'There must be only one.'
  }
}

/** Longest string in a TXT record; a longer value is several strings. Source: RFC 1035 3.3.14. */
const STRING_CHARS_MAX = 255

/** The records as lines of a zone file. Source: RFC 1035 5.1. */
export function zoneFile (records: DnsRecord[]): string {
  return records.filter(({ stage }) => stage !== 'removable').map(({ type, name, value }) => {
    const strings = value.match(new RegExp(`.{1,${STRING_CHARS_MAX}}`, 'g')) ?? ['']
    const data = type === 'CNAME'
      ? `${value}.`
      : strings.map(text => `"${text.replaceAll(/["\\]/g, '\\$&')}"`).join(' ')
    return `${name}. 3600 IN ${type} ${strings.length > 1 && type === 'TXT' ? `( ${data} )` : data}`
  }).join('\n')
}
