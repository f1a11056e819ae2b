import { once } from 'node:events'
import { Readable, type Writable } from 'node:stream'
import { deliveries } from '#projections/deliveries/project.ts'
import { emails } from '#projections/emails/project.ts'
import type { Projection } from '#projections/define.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Log } from '#src/base/log.ts'
import { coalesce } from '#src/base/coalesce.ts'
import type { Bus } from '#src/nats/connect.ts'
import { createChangeNotifier } from '#src/nats/change-notifier.ts'
import type { View } from '#src/postgres/checkpoint.ts'
import { Unfit, type Visit } from './visit.ts'
import type { Kind } from './parts.ts'

const SOURCES: Record<Kind, { stream: string, filter: string, projection: Projection }> = {
  emails: { stream: 'EMAILS', filter: 'email.>', projection: emails },
  deliveries: { stream: 'WEBHOOKS', filter: 'webhook.>', projection: deliveries }
}
const KINDS = Object.keys(SOURCES) as Kind[]

/** A page hears no more often that something has happened. */
const GAP_MS = 1000
const HEARTBEAT_MS = 15_000
/** A page that is told something looks at the view: it should be there by then. */
const VIEW_MS = 2000
/** How often each line's session and reader are looked at. */
const WATCH_MS = 250
const ACCOUNT_MAX = 50
const PROCESS_MAX = 500

/** Pages that are open in somebody's browser hear what kind of thing has happened in their account, and look for
 *  themselves. */
interface LiveLines {
  /** Server-sent events, for as long as `stands` is true and the browser reads `line`. Throws Unfit when there are too
   *  many. */
  open(visit: Visit, line: Writable, stands: () => boolean): Readable
  stop(): Promise<void>
}

interface Line {
  account: string
  stands: () => boolean
  rung: Set<Kind>
  wake: () => void
  ending: AbortController
}

export function createLiveLines (bus: Bus, view: View, log: Log): LiveLines {
  // Whatever rings wakes the lines of an account all at once.
  const looks = Object.fromEntries(
    KINDS.map(kind => [kind, coalesce(async () => await view.caughtUp(SOURCES[kind].projection, VIEW_MS))])
  ) as Record<Kind, () => Promise<void>>
  const bells = KINDS.map(kind => ({ kind, bell: createChangeNotifier(bus, SOURCES[kind], log) }))
  const lines = new Map<Line, Writable>()
  let watch: NodeJS.Timeout | undefined
  let stopped = false

  function open ({ account: { id: account } }: Visit, socket: Writable, stands: () => boolean): Readable {
    const own = [...lines.keys()].filter(line => line.account === account).length
    if (stopped || own >= ACCOUNT_MAX || lines.size >= PROCESS_MAX) {
      throw new Unfit('Too many pages of the dashboard are open at the same time.')
    }
    if (socket.destroyed) return Readable.from([])
    const line: Line = { account, stands, rung: new Set(), wake: () => {}, ending: new AbortController() }
    if (lines.size === 0) watch = setInterval(look, WATCH_MS)
    lines.set(line, socket)
    const leave = bells.map(({ kind, bell }) =>
      bell.listen(account, () => {
        line.rung.add(kind)
        line.wake()
      })
    )
    line.ending.signal.addEventListener('abort', () => line.wake())
    socket.once('close', () => {
      lines.delete(line)
      line.ending.abort()
      for (const end of leave) end()
      if (lines.size === 0) clearInterval(watch)
    })
    return Readable.from(written(line), { objectMode: false, highWaterMark: 0 })
  }

  function look (): void {
    for (const [{ ending, stands }, socket] of lines) {
      // Who was told to end and is still there does not take what is left.
      if (ending.signal.aborted) socket.destroy()
      else if (!stands()) ending.abort()
    }
  }

  async function* written (line: Line): AsyncGenerator<string> {
    const { rung, ending: { signal } } = line
    yield 'retry: 2000\n\n'
    while (!signal.aborted) {
      if (rung.size === 0) await woken(line, signal)
      const kinds = [...rung]
      rung.clear()
      await Promise.all(kinds.map(kind => looks[kind]()))
      if (signal.aborted) return
      yield kinds.length === 0 ? ': nothing new\n\n' : kinds.map(kind => `event: ${kind}\ndata:\n\n`).join('')
      await sleep(GAP_MS, signal)
    }
  }

  return {
    open,
    async stop () {
      stopped = true
      const sockets = [...lines.values()]
      for (const { ending } of lines.keys()) ending.abort()
      await Promise.all(sockets.map(async socket => await once(socket, 'close').catch(() => {})))
      await Promise.all(bells.map(async ({ bell }) => await bell.stop()))
    }
  }
}

/** Until something happens, the line ends, or it has been silent for long. */
async function woken (line: Pick<Line, 'wake'>, signal: AbortSignal): Promise<void> {
  const waking = new AbortController()
  line.wake = () => waking.abort()
  if (!signal.aborted) await sleep(HEARTBEAT_MS, waking.signal)
}
