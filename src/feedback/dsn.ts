import { addressOf, isStandIn } from './addresses.ts'
import { readFields, type HeaderField } from './entity.ts'

export type Action = 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded'

/** One recipient of a delivery status, as stated. `diagnostic` is without its type. */
export interface StatusBlock {
  address: string | null
  action: Action | null
  status: string | null
  diagnostic: string | null
  remoteMta: string | null
  /** PowerMTA's own word for the reason, or null. */
  category: string | null
}

export interface DeliveryStatus {
  blocks: StatusBlock[]
  fields: HeaderField[]
}

/** Our messages have one recipient each; mailing lists behind it may multiply. */
const BLOCKS_MAX = 50
const STARTERS = new Set(['final-recipient', 'original-recipient', 'action', 'status'])
const OF_RECIPIENT = new Set([
  ...STARTERS,
  'diagnostic-code',
  'remote-mta',
  'last-attempt-date',
  'x-actual-recipient',
  'final-log-id',
  'will-retry-until'
])

/** Exit codes of delivery programs (sysexits.h), which some give instead of words. */
const EXITS: Record<string, string> = {
  67: 'user unknown',
  68: 'host unknown',
  69: 'service unavailable',
  73: 'cannot create output file',
  75: 'temporary failure',
  77: 'permission denied'
}

/** PowerMTA's categories, in words that servers use. */
const CATEGORIES = new Map([
  ['bad-mailbox', 'user unknown'],
  ['inactive-mailbox', 'mailbox is inactive'],
  ['bad-domain', 'domain does not exist'],
  ['quota-issues', 'mailbox full, over quota'],
  ['spam-related', 'rejected as spam'],
  ['virus-related', 'virus found'],
  ['policy-related', 'refused by policy'],
  ['relaying-issues', 'relaying denied'],
  ['no-answer-from-host', 'connection timed out'],
  ['bad-connection', 'connection lost'],
  ['routing-errors', 'unable to route'],
  ['message-expired', 'message expired'],
  ['invalid-sender', 'sender rejected']
])

/** Reads message/delivery-status and its global twin, well made or not: blocks that blank lines do not part, fields in
 *  any order, types left out. Source: RFC 3464, RFC 6533. */
export function readDeliveryStatus (text: string): DeliveryStatus {
  const blocks: HeaderField[][] = []
  const general: HeaderField[] = []
  let current: HeaderField[] | null = null
  for (const group of text.split(/\n[ \t]*\n/, 400)) {
    if (current !== null && isComplete(current)) current = null
    for (const field of fieldsIn(group)) {
      const own = OF_RECIPIENT.has(field.name) || (current !== null && field.name.startsWith('x-'))
      if (
        own && STARTERS.has(field.name) && (current === null || current.some(known => known.name === field.name)) &&
        blocks.length < BLOCKS_MAX
      ) blocks.push(current = [])
      if (own && current !== null) current.push(field)
      else general.push(field)
    }
  }
  return { blocks: blocks.map(readBlock).filter(block => block !== null), fields: general }
}

/** Lines that are no fields are what a mailer has wrapped without folding. */
function fieldsIn (group: string): HeaderField[] {
  const lines = group.replace(/^\s+/, '').split('\n', 400)
  const folded = lines.map((line, n) => n > 0 && !/^[A-Za-z][\w-]{1,60}[ \t]*:/.test(line) ? ` ${line}` : line)
  return readFields(folded.join('\n')).fields
}

function isComplete (block: HeaderField[]): boolean {
  const names = new Set(block.map(field => field.name))
  return (names.has('final-recipient') || names.has('original-recipient')) &&
    (names.has('action') || names.has('status'))
}

function readBlock (fields: HeaderField[]): StatusBlock | null {
  const one = (name: string): string | null => fields.find(field => field.name === name)?.value ?? null
  const addresses = ['final-recipient', 'original-recipient', 'x-actual-recipient'].map(name =>
    addressOf(one(name) ?? '')
  ).filter(address => address !== null)
  const action = readAction(one('action'))
  const status = /[245]\.\d{1,3}\.\d{1,3}/.exec(one('status') ?? '')?.[0] ?? null
  if (addresses.length === 0 && action === null && status === null) return null
  const category = one('x-powermta-bouncecategory')
  return {
    address: addresses.find(isReal) ?? addresses[0] ?? null,
    action,
    status,
    diagnostic: readDiagnostic(one('diagnostic-code') ?? one('x-diagnostic-code'), one('status')),
    remoteMta: one('remote-mta')?.replace(/^[\w-]{1,20}\s*;\s*/, '').slice(0, 255) ?? null,
    category: category === null ? null : CATEGORIES.get(category.trim().toLowerCase()) ?? null
  }
}

function isReal (address: string): boolean {
  return !isStandIn(address) && address.includes('.', address.lastIndexOf('@'))
}

/** The first word, in any spelling. Some servers write what they mean rather than what the RFC lists. */
export function readAction (value: string | null): Action | null {
  const word = value?.trim().toLowerCase() ?? ''
  if (/^(?:fail|undeliver|expire|reject|bounce|permanent)/.test(word)) return 'failed'
  if (/^(?:delay|defer|transient|retry)/.test(word)) return 'delayed'
  if (word.startsWith('deliver')) return 'delivered'
  if (word.startsWith('relay')) return 'relayed'
  return word.startsWith('expand') ? 'expanded' : null
}

/** Without type (`smtp;`) and, for exit codes, in words. A reason behind the status counts when there is no other. */
function readDiagnostic (value: string | null, status: string | null): string | null {
  const comment = /\((.{4,400})\)\s*$/.exec(status?.slice(0, 600) ?? '')?.[1] ?? null
  if (value === null) return comment
  const [, type, rest] = /^([\w.-]{1,30})\s*;\s*(.*)$/.exec(value) ?? [null, '', value]
  const exit = /unix/i.test(type!) ? EXITS[/^\D{0,20}(\d+)\D*$/.exec(rest!)?.[1] ?? ''] : undefined
  return exit ?? (rest!.trim() === '' ? comment : rest!)
}
