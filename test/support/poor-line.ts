import { createInbox, headers, type Msg, type NatsConnection } from 'nats'
import type { FactLog } from '#src/actions/fact-log.ts'
import type { Bus } from '#src/nats/connect.ts'

/** The same connection with some of its verbs replaced. */
function withVerbs (bus: Bus, verbs: Partial<NatsConnection>): Bus {
  const nc = new Proxy(bus.nc, {
    get: (target, name) => {
      const verb: unknown = Reflect.get(verbs, name) ?? Reflect.get(target, name)
      return typeof verb === 'function' ? verb.bind(target) : verb
    }
  })
  return { ...bus, nc }
}

/** A line that loses one part of an answer: the `lost`th (from 1) of the first answer of a stream that has so many, to
 *  a question `about` a subject. `relay` is another connection, for no connection hears itself. */
export function losing (bus: Bus, relay: Bus, about: string, lost: number): { bus: Bus, hasLost(): boolean } {
  let done = false
  const ask = (asked: string, question: string, reply: string) => {
    const inbox = createInbox()
    let count = 0
    const subscription = relay.nc.subscribe(inbox, {
      callback: (_error, { data, headers }: Msg) => {
        const goes = done || ++count !== lost || (headers?.code ?? 0) !== 0
        if (!goes) done = true
        else relay.nc.publish(reply, data, headers === undefined ? {} : { headers })
        if ((headers?.code ?? 0) !== 0) subscription.unsubscribe()
      }
    })
    relay.nc.publish(asked, question, { reply: inbox })
  }
  const publish: NatsConnection['publish'] = (subject, payload, options) => {
    const text = typeof payload === 'string' ? payload : ''
    if (!done && subject.startsWith('$JS.API.DIRECT.GET.') && text.includes(about)) ask(subject, text, options!.reply!)
    else bus.nc.publish(subject, payload, options)
  }
  return { bus: withVerbs(bus, { publish }), hasLost: () => done }
}

/** A replica answers that has heard of nothing yet, as long as `behind` says so of the question. */
export function stale (bus: Bus, behind: (subject: string, question: string) => boolean): Bus {
  const request: NatsConnection['request'] = async (subject, payload, options) => {
    if (!subject.startsWith('$JS.API.DIRECT.GET.') || !behind(subject, String(payload))) {
      return await bus.nc.request(subject, payload, options)
    }
    return { headers: headers(404, 'Message Not Found'), data: new Uint8Array(), subject } as unknown as Msg
  }
  return withVerbs(bus, { request })
}

/** A factLog that reads through such a line, and writes as before. */
export function over (factLog: FactLog, bus: Bus): FactLog {
  return { ...factLog, bus }
}
