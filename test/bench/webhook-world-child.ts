// The world around the webhook role: endpoints that live, endpoints that die, and the events that are theirs, with one
// clock.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createFront, type AddressInfo, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { quantile } from '#src/cli/bench/load.ts'
import { answerWith } from './child.ts'
import { appendEvent, makeEndpoint, makeEvent, openGround, type Ground } from './webhook-facts.ts'

export type WebhookWorldQuestion =
  /** Endpoint i belongs to account i modulo `accounts`; each has an origin of its own, or all share one. */
  | {
    ask: 'open'
    natsUrl: string
    accounts: number
    endpoints: number
    origins: 'one' | 'each'
    concurrency: number | null
  }
  /** So many events at once, of one account after the other. */
  | { ask: 'backlog', events: number }
  /** So many a second for a while; counted or not. `account`: all of one account; left out = of all by chance. */
  | { ask: 'drive', perS: number, durationMs: number, counted: boolean, account?: number }
  /** Every `one`th endpoint dies: some refuse, some hang, some answer 500, some cut the line. */
  | { ask: 'kill', oneIn: number }
  /** The first so many die. */
  | { ask: 'kill', first: number }
  /** The dead ones work again. */
  | { ask: 'revive' }
  /** Waits for what each endpoint still has to get. */
  | { ask: 'recover', timeoutMs: number }
  /** Waits for what the living ones still have to get. */
  | { ask: 'settle', oneIn: number, timeoutMs: number }

/** Of the endpoints that live in either run; latencies from the moment an event was handed to the log. */
export interface WebhookOutcome {
  p50Ms: number
  p99Ms: number
  worstMs: number
  /** Of that until the fact itself was durable. */
  logP50Ms: number
  logP99Ms: number
  expected: number
  lost: number
  doubled: number
  /** Requests that the others got. */
  toOthers: number
  /** Events that could not be appended. */
  refused: number
}

const DEATHS = ['refuse', 'hang', 'fail', 'reset'] as const
type Death = typeof DEATHS[number]

const TICK_MS = 10
const APPENDS_AT_ONCE = 2000

/** `seen` = requests for it, by the place of its endpoint in the account. */
interface Event {
  account: number
  atMs: number
  counted: boolean
  seen: Uint8Array
}

const http = createServer((incoming, outgoing) => void take(incoming, outgoing))
const fronts: Server[] = []
const ports: AddressInfo[] = []
const sockets = new Map<number, Set<Socket>>()
const deaths = new Map<number, Death>()
const events = new Map<string, Event>()
const logMs: number[] = []
const firsts: Array<{ endpoint: number, ms: number }> = []
let ground: Ground
let accounts = 0
let endpoints = 0
let turn = 0
let refused = 0
let toDead = 0
http.keepAliveTimeout = 60_000

answerWith<WebhookWorldQuestion>(async question => {
  switch (question.ask) {
    case 'open':
      return await open(question)
    case 'backlog':
      return await backlog(question.events)
    case 'drive':
      return await drive(question)
    case 'kill':
      return kill(question)
    case 'revive':
      return await revive()
    case 'recover':
      return await recover(question.timeoutMs)
    case 'settle':
      return await settle(question)
  }
})

async function open (question: Extract<WebhookWorldQuestion, { ask: 'open' }>): Promise<{ urls: string[] }> {
  ground = await openGround(question.natsUrl, 'bench world')
  accounts = question.accounts
  endpoints = question.endpoints
  for (let i = 0; i < (question.origins === 'one' ? 1 : endpoints); i++) await listen(i)
  const urls = Array.from(
    { length: endpoints },
    (_, i) => `http://127.0.0.1:${(fronts[question.origins === 'one' ? 0 : i]!.address() as AddressInfo).port}/${i}`
  )
  // In order, or the account's bound is not seen.
  for (const [i, url] of urls.entries()) await makeEndpoint(ground, accountOf(i % accounts), url, question.concurrency)
  return { urls }
}

const accountOf = (n: number): string => `acc_bench${n}`

/** One listener for each origin before the one server. */
async function listen (n: number): Promise<void> {
  const its = new Set<Socket>()
  const front = createFront(socket => {
    its.add(socket)
    socket.on('close', () => its.delete(socket))
    socket.setNoDelay(true)
    http.emit('connection', socket)
  })
  sockets.set(n, its)
  fronts.push(front)
  await new Promise<void>(resolve => front.listen(0, '127.0.0.1', resolve))
  ports.push(front.address() as AddressInfo)
}

async function take (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const endpoint = Number(incoming.url!.slice(1))
  incoming.on('error', () => {})
  incoming.resume()
  await new Promise(resolve => incoming.on('end', resolve))
  const death = deaths.get(endpoint)
  if (death === undefined) {
    note(endpoint, String(incoming.headers['webhook-id']))
    return void outgoing.writeHead(200, { 'Content-Length': 2 }).end('ok')
  }
  toDead++
  if (death === 'fail') outgoing.writeHead(500, { 'Content-Length': 5 }).end('sorry')
  if (death === 'reset') outgoing.socket?.resetAndDestroy()
}

function note (endpoint: number, id: string): void {
  const event = events.get(id)
  if (event === undefined) return
  const place = Math.floor(endpoint / accounts)
  if (event.seen[place]!++ === 0 && event.counted) firsts.push({ endpoint, ms: performance.now() - event.atMs })
}

async function backlog (count: number): Promise<object> {
  for (let left = count; left > 0; left -= APPENDS_AT_ONCE) {
    const many = { length: Math.min(left, APPENDS_AT_ONCE) }
    await Promise.all(Array.from(many, () => happen(false, turn++ % accounts)))
  }
  return {}
}

async function drive (
  { perS, durationMs, counted, account }: Extract<WebhookWorldQuestion, { ask: 'drive' }>
): Promise<object> {
  const beginMs = performance.now()
  const appending = new Set<Promise<void>>()
  for (let made = 0; performance.now() - beginMs < durationMs; await sleep(TICK_MS)) {
    for (const due = Math.max(1, (performance.now() - beginMs) * perS / 1000); made < due; made++) {
      const one = happen(counted, account ?? scattered(turn++) % accounts).finally(() => appending.delete(one))
      appending.add(one)
    }
  }
  await Promise.all(appending)
  return {}
}

/** The same in every run, and nobody's turn comes at even steps. */
const scattered = (n: number): number => Math.imul(n + 1, 0x9e3779b1) >>> 8

async function happen (counted: boolean, account: number): Promise<void> {
  const event = makeEvent()
  events.set(event.id, {
    account,
    atMs: performance.now(),
    counted,
    seen: new Uint8Array(Math.ceil(endpoints / accounts))
  })
  const handedMs = performance.now()
  await appendEvent(ground, accountOf(account), event).then(() => {
    if (counted) logMs.push(performance.now() - handedMs)
  }, () => {
    events.delete(event.id)
    refused++
  })
}

function kill (question: Extract<WebhookWorldQuestion, { ask: 'kill' }>): object {
  for (let endpoint = 0; endpoint < endpoints; endpoint++) {
    const dies = 'first' in question ? endpoint < question.first : isMarked(endpoint, question.oneIn)
    const turn = 'first' in question ? endpoint : Math.floor(endpoint / question.oneIn)
    if (dies) die(endpoint, DEATHS[turn % DEATHS.length]!)
  }
  return {}
}

const isMarked = (endpoint: number, oneIn: number): boolean => endpoint % oneIn === oneIn - 1

function die (endpoint: number, death: Death): void {
  deaths.set(endpoint, death)
  if (death !== 'refuse') return
  fronts[endpoint]!.close()
  for (const socket of sockets.get(endpoint)!) socket.destroy()
}

async function revive (): Promise<object> {
  for (const [endpoint, death] of deaths) {
    // As a server does that is started again.
    for (const socket of sockets.get(endpoint)!) socket.destroy()
    if (death !== 'refuse') continue
    const { port } = ports[endpoint]!
    await new Promise<void>(resolve => fronts[endpoint]!.listen(port, '127.0.0.1', resolve))
  }
  deaths.clear()
  return {}
}

/** Until each event has come to each endpoint of its account: how many have not, and how long it took. */
async function recover (timeoutMs: number): Promise<{ leftOver: number, ms: number }> {
  const beginMs = performance.now()
  const left = () => count(Infinity).lost
  while (left() > 0 && performance.now() - beginMs < timeoutMs) await sleep(100)
  return { leftOver: left(), ms: performance.now() - beginMs }
}

async function settle (
  { oneIn, timeoutMs }: Extract<WebhookWorldQuestion, { ask: 'settle' }>
): Promise<WebhookOutcome> {
  const endMs = performance.now() + timeoutMs
  while (count(oneIn).lost > 0 && performance.now() < endMs) await sleep(200)
  // What comes twice may come a little later.
  await sleep(1000)
  const times = firsts.filter(({ endpoint }) => !isMarked(endpoint, oneIn)).map(({ ms }) => ms).toSorted((a, b) =>
    a - b
  )
  const inLog = logMs.toSorted((a, b) => a - b)
  return {
    p50Ms: quantile(times, 0.5),
    p99Ms: quantile(times, 0.99),
    worstMs: times.at(-1) ?? NaN,
    logP50Ms: quantile(inLog, 0.5),
    logP99Ms: quantile(inLog, 0.99),
    ...count(oneIn),
    refused
  }
}

/** Each event must have come to each living endpoint of its account, and comes once when all is well. */
function count (oneIn: number): Pick<WebhookOutcome, 'expected' | 'lost' | 'doubled' | 'toOthers'> {
  const found = { expected: 0, lost: 0, doubled: 0, toOthers: toDead }
  for (const { account, seen } of events.values()) {
    for (let place = 0; account + place * accounts < endpoints; place++) {
      const times = seen[place]!
      if (isMarked(account + place * accounts, oneIn)) {
        found.toOthers += times
        continue
      }
      found.expected++
      if (times === 0) found.lost++
      else found.doubled += times - 1
    }
  }
  return found
}
