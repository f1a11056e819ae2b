import type { RouteSource, WarmUp } from '#streams/route/facts.ts'
import type { WantedRoute } from '#src/actions/route.ts'
import { usageError, type readArgs } from './command.ts'

/** What a route may be given on the command line. */
export const ROUTE_OPTIONS = {
  url: { type: 'string' },
  position: { type: 'string' },
  'sender-domain': { type: 'string', multiple: true },
  key: { type: 'string', multiple: true },
  tag: { type: 'string', multiple: true },
  'recipient-domain': { type: 'string', multiple: true },
  fallback: { type: 'string', multiple: true },
  hostname: { type: 'string' },
  source: { type: 'string', multiple: true },
  rate: { type: 'string' },
  connections: { type: 'string' },
  'warm-up': { type: 'string' }
} as const

export type RouteValues = ReturnType<typeof readArgs<typeof ROUTE_OPTIONS>>['values']

/** The settings that are given, but for the URL. An option that may be several times replaces the whole list; `none`
 *  alone empties it. */
export function settingsOf (values: RouteValues): Partial<Omit<WantedRoute, 'url' | 'match'>> {
  const { position, fallback, hostname, source, rate, connections, 'warm-up': warmUp } = values
  return {
    ...(position === undefined ? {} : { position: numberOf('--position', position) }),
    ...(fallback === undefined ? {} : { fallbacks: listOf(fallback) }),
    ...(hostname === undefined ? {} : { hostname: orNull(hostname, text => text) }),
    ...(source === undefined ? {} : { sources: listOf(source).map(sourceOf) }),
    ...(rate === undefined ? {} : { messagesPerSecond: orNull(rate, text => numberOf('--rate', text)) }),
    ...(connections === undefined ? {} : { connections: orNull(connections, text => numberOf('--connections', text)) }),
    ...(warmUp === undefined ? {} : { warmUp: orNull(warmUp, warmUpOf) })
  }
}

/** The rule, with the lists that are given in the place of those before. */
export function matchOf (values: RouteValues, before: WantedRoute['match']): WantedRoute['match'] {
  const given = (list: string[] | undefined, known: string[]) => (list === undefined ? known : listOf(list))
  return {
    senderDomains: given(values['sender-domain'], before.senderDomains),
    keys: given(values.key, before.keys),
    tags: given(values.tag, before.tags),
    recipientDomains: given(values['recipient-domain'], before.recipientDomains)
  }
}

function orNull<T> (text: string, parse: (text: string) => T): T | null {
  return text === 'none' ? null : parse(text)
}

function listOf (texts: string[]): string[] {
  return texts.length === 1 && texts[0] === 'none' ? [] : texts
}

function numberOf (option: string, text: string): number {
  if (!/^\d{1,10}(?:\.\d{1,3})?$/.test(text)) throw usageError(`${option} must be a number.`)
  return Number(text)
}

/** `192.0.2.1,weight=3,tag=bulk,hostname=mx1.example.com,warm-up=…` */
function sourceOf (text: string): RouteSource {
  const [address = '', ...parts] = text.split(',')
  const source: RouteSource = { address, hostname: null, weight: 1, tags: [], warmUp: null }
  for (const part of parts) {
    const [, name, value = ''] = /^([a-z-]+)=(.+)$/.exec(part) ?? []
    if (name === 'weight') source.weight = numberOf('weight of --source', value)
    else if (name === 'tag') source.tags.push(value)
    else if (name === 'hostname') source.hostname = value
    else if (name === 'warm-up') source.warmUp = warmUpOf(value)
    else throw usageError('--source must be an address, then weight=, tag=, hostname= and warm-up=, after commas.')
  }
  return source
}

/** `2026-12-01/50/100/500`, or with what follows the last day: `…/500/then=500`. */
function warmUpOf (text: string): WarmUp {
  const [from = '', ...caps] = text.split('/')
  const then = caps.at(-1)?.startsWith('then=') === true ? caps.pop()!.slice('then='.length) : null
  const whole = (cap: string) => {
    if (!/^\d{1,9}$/.test(cap)) {
      throw usageError('--warm-up must be a day and the most mails of each day from then: 2026-12-01/50/100/500.')
    }
    return Number(cap)
  }
  if (caps.length === 0) whole('')
  return { from, perDay: caps.map(whole), after: then === null ? null : whole(then) }
}
