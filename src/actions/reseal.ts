import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import { decideRouteReseal } from '#streams/route/decide.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { domainKey, type DomainEntry, type WebhookEntry } from '#streams/directory.ts'
import { decideReseal as decideDomain } from '#streams/domain/decide.ts'
import { keptKeys } from '#streams/domain/keys.ts'
import { decideReseal as decideFeedbackSource } from '#streams/feedback-source/decide.ts'
import type { FeedbackSourceEntry } from '#streams/feedback-source/state.ts'
import { groupsOf } from '#streams/groups.ts'
import { decideReseal as decideWebhook, overlapOf } from '#streams/webhook/decide.ts'
import { CannotOpen, type Vault } from '#src/base/secret.ts'
import { decodeStored } from '#src/nats/message.ts'
import { readRange } from '#src/nats/range.ts'
import { askedBy } from './fact-log.ts'
import { type CommandServices, handleCommand } from './handle-command.ts'
import type { Commander, Services } from './services.ts'

type ResealServices = CommandServices & Pick<Services, 'vault'>

/** What has become of everything that is sealed. */
export interface Resealing {
  /** Endpoints, domains, routes and feedback sources that have got a fact. */
  webhooks: number
  domains: number
  routes: number
  sources: number
  /** What no secret of the ring opens, by id or name: it stays as it is. */
  lost: string[]
  /** Erasures under way whose address an older secret has sealed: it goes when they are complete. */
  erasures: number
}

/** Appends that are under way at once. */
const GROUP = 16

/** Seals again, with the newest secret, what an older one of the ring has sealed. Safe to repeat and to interrupt, and
 *  beside the service: what is so already gets no fact. Throws LogUnavailable, Conflict, or when NATS does not answer.
 */
export async function resealAll (services: ResealServices, by: Commander): Promise<Resealing> {
  const { directory: { now }, factLog, vault } = services
  const webhooks = await eachOf(
    [...now.webhooks.values()],
    webhook => webhook.id,
    ({ id, account }) =>
      handleCommand(
        services,
        'webhook',
        id,
        askedBy({ ...by, account }),
        (current, nowMs) =>
          current === undefined ? [] : unlessLost(() => decideWebhook(current, resealer(vault, id), nowMs))
      )
  )
  const domains = await eachOf(
    [...now.domains.values()],
    domain => domain.name,
    ({ account, name }) =>
      handleCommand(
        services,
        'domain',
        domainKey(account, name),
        askedBy({ ...by, account }),
        current => current === undefined ? [] : unlessLost(() => decideDomain(current, resealer(vault, current.id)))
      )
  )
  const routes = await eachOf(
    [...now.routes.values()],
    route => route.name,
    ({ id }) =>
      handleCommand(
        services,
        'route',
        id,
        askedBy({ ...by, account: FIRST_ACCOUNT }),
        current => current === undefined ? [] : unlessLost(() => decideRouteReseal(current, resealer(vault, id)))
      )
  )
  const sources = await resealSources(services, by)
  const erasures = await pendingErasures(factLog, vault)
  return {
    webhooks: webhooks.changed,
    domains: domains.changed,
    routes: routes.changed,
    sources: sources.changed,
    lost: [...webhooks.lost, ...domains.lost, ...routes.lost, ...sources.lost, ...erasures.lost],
    erasures: erasures.older
  }
}

async function resealSources (services: ResealServices, by: Commander): ReturnType<typeof eachOf> {
  return await eachOf(
    [...services.directory.now.feedbackSources.values()],
    source => source.id,
    ({ id }) =>
      handleCommand(
        services,
        'feedbackSource',
        id,
        askedBy({ ...by, account: FIRST_ACCOUNT }),
        current =>
          current === undefined ? [] : unlessLost(() => decideFeedbackSource(current, resealer(services.vault, id)))
      )
  )
}

const resealer = (vault: Vault, context: string) => (sealed: string) => vault.reseal(sealed, context)

function unlessLost<T> (decide: () => T): T | Refusal {
  try {
    return decide()
  } catch (error) {
    if (error instanceof CannotOpen) return new Refusal('cannot_open', error.message)
    throw error
  }
}

async function eachOf<T> (
  all: readonly T[],
  nameOf: (one: T) => string,
  reseal: (one: T) => Promise<{ seq: number } | Refusal>
): Promise<{ changed: number, lost: string[] }> {
  let changed = 0
  const lost: string[] = []
  for (const group of groupsOf(all, GROUP)) {
    const results = await Promise.all(group.map(reseal))
    for (const [i, result] of results.entries()) {
      if (result instanceof Refusal) lost.push(nameOf(group[i]!))
      else if (result.seq > 0) changed++
    }
  }
  return { changed, lost }
}

/** The request of an erasure, which has the address, is deleted at its end: those that are there are under way. */
async function pendingErasures (
  { bus }: Pick<Services['factLog'], 'bus'>,
  vault: Vault
): Promise<{ older: number, lost: string[] }> {
  let older = 0
  const lost: string[] = []
  for await (const page of readRange(bus, { stream: 'CONTROL', filters: ['erasure.>'], afterSeq: 0 })) {
    for (const { fact } of page.map(decodeStored)) {
      if (fact.type !== 'erasure.requested') continue
      const { erasure, address } = fact.data
      const after = unlessLost(() => vault.reseal(address, erasure))
      if (after instanceof Refusal) lost.push(erasure)
      else if (after !== null) older++
    }
  }
  return { older, lost }
}

/** Looked at when a process starts, of each kind at most. */
const LOOKED_AT = 1000

/** Endpoints, domains, routes and feedback sources with a secret that no secret of the ring opens, by id or name. */
export function lostSecrets ({ directory: { now }, factLog: { clock }, vault }: ResealServices): string[] {
  const nowMs = clock.nowMs()
  const isLost = (texts: string[], context: string) =>
    texts.some(text => unlessLost(() => vault.open(text, context)) instanceof Refusal)
  const ofWebhook = (webhook: WebhookEntry) =>
    [webhook.sealedSecret, overlapOf(webhook, nowMs)?.sealedSecret].filter(text => text !== undefined)
  const ofDomain = ({ dkim }: DomainEntry) => keptKeys(dkim).map(({ sealedKey }) => sealedKey)
  const ofRoute = ({ sealedUrl }: RouteEntry) => (sealedUrl === null ? [] : [sealedUrl])
  const ofSource = ({ sealedKey }: FeedbackSourceEntry) => (sealedKey === null ? [] : [sealedKey])
  const lostOf = <Thing extends { id: string }>(things: Map<string, Thing>, sealed: (thing: Thing) => string[]) =>
    [...things.values()].slice(0, LOOKED_AT).filter(thing => isLost(sealed(thing), thing.id))
  return [
    ...lostOf(now.webhooks, ofWebhook).map(({ id }) => id),
    ...lostOf(now.domains, ofDomain).map(({ name }) => name),
    ...lostOf(now.routes, ofRoute).map(({ name }) => name),
    ...lostOf(now.feedbackSources, ofSource).map(({ id }) => id)
  ]
}
