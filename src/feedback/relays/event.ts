import { REPORT_POINTERS_MAX, REPORT_TEXT_MAX, type RelayReportKind } from '#streams/inbound/facts.ts'
import { addressOf } from '../addresses.ts'
import { printable } from '../reply.ts'

/** What a relay says of one recipient, as its reader found it. */
export interface RelayEvent {
  /** The relay's own name of what happened, to know it again; null = it has none. */
  id: string | null
  kind: RelayReportKind
  /** Unix ms; null = it does not say. */
  atMs: number | null
  address: string | null
  /** What may name the mail: Message-IDs with or without brackets, and strings that hold a token of ours. */
  messageIds: string[]
  tokens: string[]
  status: string | null
  diagnostic: string | null
  host: string | null
  /** The relay's own word for the reason. */
  reason: string | null
  feedbackType: string | null
}

type Said = Pick<RelayEvent, 'kind'> & Partial<RelayEvent>

/** With bounds on everything, and without what is no text for people. */
export function relayEvent (said: Said): RelayEvent {
  const { id, kind, atMs, address, messageIds = [], tokens = [], status, diagnostic, host, reason, feedbackType } = said
  return {
    id: bounded(id, 200),
    kind,
    atMs: atMs !== undefined && atMs !== null && isTime(atMs) ? Math.round(atMs) : null,
    address: bounded(address === undefined || address === null ? null : addressOf(address) ?? address, 512),
    messageIds: pointers(messageIds.map(id => id.replaceAll(/[<>]/g, ''))),
    tokens: pointers(tokens),
    status: /^[245]\.\d{1,3}\.\d{1,3}$/.exec(status ?? '')?.[0] ?? null,
    diagnostic: bounded(diagnostic, REPORT_TEXT_MAX),
    host: bounded(host, 255),
    reason: bounded(reason, 100),
    feedbackType: bounded(feedbackType, 100)
  }
}

/** What a fact's time can tell. */
const isTime = (ms: number) => ms >= 0 && ms < Date.UTC(9999, 11, 31)

function bounded (text: string | null | undefined, lengthMax: number): string | null {
  const plain = printable(text ?? '').trim().slice(0, lengthMax).toWellFormed()
  return plain === '' ? null : plain
}

function pointers (texts: string[]): string[] {
  return [...new Set(texts.map(text => bounded(text, 998)).filter(text => text !== null))].slice(0, REPORT_POINTERS_MAX)
}

/** Unix ms of a time in words, such as RFC 3339; null = it is none. */
export function timeIn (value: unknown): number | null {
  const ms = typeof value === 'string' ? Date.parse(value) : NaN
  return Number.isNaN(ms) ? null : ms
}

/** The same of Unix seconds, as a number or in digits. */
export function secondsIn (value: unknown): number | null {
  const seconds = typeof value === 'string' && /^\d{1,12}(\.\d+)?$/.test(value) ? Number(value) : value
  return typeof seconds === 'number' && Number.isFinite(seconds) ? seconds * 1000 : null
}
