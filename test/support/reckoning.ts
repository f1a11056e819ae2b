import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { HookSink } from './hook-sink.ts'
import { startHookSink } from './hook-sink.ts'
import type { Shot } from '#src/cli/bench/load.ts'
import { startSink, type Received, type Sink } from './smtp-sink.ts'
import type { Tree } from './tree.ts'

/** Who answers for Jetpost's API. */
type Jetpost = Pick<Tree, 'request'>

/** A mail server and a webhook receiver that outlive the Jetpost they serve. */
export interface World {
  mail: Sink
  hooks: HookSink
  /** `SMTP_URL` for the tree. */
  smtpUrl: string
}

export async function openWorld (t: Test): Promise<World> {
  const mail = await startSink()
  const hooks = await startHookSink()
  t.teardown(async () => {
    await mail.stop()
    await hooks.stop()
  })
  return { mail, hooks, smtpUrl: `${mail.url}?tls=off` }
}

export async function subscribe (jetpost: Jetpost, { hooks }: World): Promise<void> {
  const { status } = await jetpost.request('POST', '/api/webhooks', {
    url: hooks.url,
    events: ['email.delivered', 'email.bounced']
  })
  if (status !== 201) throw new Error(`no webhook was made: ${status}`)
}

/** The JSON of a small mail; its subject and recipient tell it from the others. */
export function smallMail (i: number): string {
  return JSON.stringify({
    from: 'hello@sandbox.jetpost.test',
    to: `user${i}@example.com`,
    subject: `mail ${i}`,
    html: '<p>Hello</p>'
  })
}

/** What the sinks, the list and the timelines said in the end. */
export interface Reckoning {
  /** Emails of which the mail server took more than one copy. */
  doubled: number
  /** Emails with a doubt in their timeline. */
  doubted: number
}

const LOOK_MS = 250

/** Waits until every email that was answered 202 has reached the mail server, the list calls it delivered and its event
 *  has come, then checks that all of them tell one story: copies share Message-ID and Date, each copy after the first
 *  has its doubt, nothing is there that was never asked for. */
export async function reckon (
  t: Test,
  jetpost: Jetpost,
  world: World,
  shots: Shot[],
  timeoutMs: number
): Promise<Reckoning> {
  const ids = shots.flatMap(shot => shot.id === null ? [] : [shot.id])
  const endMs = Date.now() + timeoutMs
  t.strictSame(
    await remaining(ids, endMs, async () => new Set(copiesById(world.mail).keys())),
    [],
    'every accepted email reached the mail server'
  )
  const listed = await untilSettled(jetpost, ids, endMs)
  t.strictSame(
    ids.filter(id => listed.get(id) !== 'delivered').map(id => `${id} ${listed.get(id)}`),
    [],
    'the list says delivered'
  )
  t.strictSame(
    await remaining(ids, endMs, async () => deliveredEvents(world.hooks)),
    [],
    'every accepted email had its callback'
  )
  eventsAgree(t, world.hooks)
  const copies = copiesById(world.mail)
  t.strictSame([...copies.keys()].filter(id => !listed.has(id)), [], 'nothing was sent that the list does not know')
  const timelines = await readTimelines(jetpost, suspects(ids, copies))
  for (const [id, timeline] of timelines) timelineAgrees(t, id, timeline, copies.get(id) ?? [])
  return {
    doubled: [...copies.values()].filter(list => list.length > 1).length,
    doubted: [...timelines.values()].filter(timeline => timeline.some(entry => entry.type === 'email.in_doubt')).length
  }
}

/** What is still missing when all is there or the time is up. */
async function remaining (ids: string[], endMs: number, look: () => Promise<Set<string>>): Promise<string[]> {
  for (;;) {
    const seen = await look()
    const missing = ids.filter(id => !seen.has(id))
    if (missing.length === 0 || Date.now() > endMs) return missing
    await sleep(LOOK_MS)
  }
}

/** Every listed email's status, once those asked for are delivered or the time is up. */
async function untilSettled (jetpost: Jetpost, ids: string[], endMs: number): Promise<Map<string, string>> {
  for (;;) {
    const listed = await readList(jetpost).catch(() => new Map<string, string>())
    if (ids.every(id => listed.get(id) === 'delivered') || Date.now() > endMs) return listed
    await sleep(LOOK_MS)
  }
}

const PAGES_MAX = 200

async function readList (jetpost: Jetpost): Promise<Map<string, string>> {
  const listed = new Map<string, string>()
  for (let page = 0, cursor = ''; page < PAGES_MAX; page++) {
    const { status, body } = await jetpost.request('GET', `/api/emails?limit=100${cursor}`)
    if (status !== 200) throw new Error(`the list answered ${status}`)
    for (const email of body.data) listed.set(email.id, email.status)
    if (!body.has_more) return listed
    cursor = `&cursor=${body.next_cursor}`
  }
  throw new Error('the list does not end')
}

/** Copies that a dot ended and the server took, by email. */
function copiesById (mail: Sink): Map<string, Received[]> {
  return Map.groupBy(
    mail.received.filter(message => message.accepted),
    message => /<(em_\w+)\./.exec(message.messageId ?? '')?.[1] ?? 'unknown'
  )
}

interface Event {
  id: string
  type: string
  data: { email_id: string }
}

function eventsOf (hooks: HookSink): Event[] {
  return hooks.requests.map(request => JSON.parse(request.body.toString()) as Event)
}

function deliveredEvents (hooks: HookSink): Set<string> {
  return new Set(eventsOf(hooks).filter(event => event.type === 'email.delivered').map(event => event.data.email_id))
}

/** A callback may come twice; then it is the same event with the same bytes. */
function eventsAgree (t: Test, hooks: HookSink): void {
  const bodies = Map.groupBy(
    hooks.requests.map(request => request.body.toString()),
    body => (JSON.parse(body) as Event).id
  )
  t.strictSame(
    [...bodies].filter(([, list]) => new Set(list).size > 1).map(([id]) => id),
    [],
    'repeated callbacks have the same bytes'
  )
  const events = Map.groupBy(
    new Map(eventsOf(hooks).map(event => [event.id, event])).values(),
    event => `${event.type} ${event.data.email_id}`
  )
  t.strictSame(
    [...events].filter(([, list]) => list.length > 1).map(([name]) => name),
    [],
    'one event for each outcome'
  )
}

interface Entry {
  type: string
  message_id?: string
}

/** Fewer than a key's 60 reads a minute. */
const SAMPLE = 40

/** The doubled, and some of the others. */
function suspects (ids: string[], copies: Map<string, Received[]>): string[] {
  const doubled = [...copies].filter(([, list]) => list.length > 1).map(([id]) => id)
  return [...new Set([...doubled, ...ids.filter((_id, i) => i % Math.ceil(ids.length / SAMPLE) === 0)])]
}

async function readTimelines (jetpost: Jetpost, ids: string[]): Promise<Map<string, Entry[]>> {
  const timelines = new Map<string, Entry[]>()
  for (const id of ids) {
    const { status, body } = await jetpost.request('GET', `/api/emails/${id}`)
    if (status !== 200) throw new Error(`GET /api/emails/${id} answered ${status}`)
    timelines.set(id, body.timeline)
  }
  return timelines
}

function timelineAgrees (t: Test, id: string, timeline: Entry[], copies: Received[]): void {
  const count = (type: string) => timeline.filter(entry => entry.type === type).length
  const story = timeline.map(entry => entry.type).join(' ')
  if (count('email.delivered') !== 1) {
    t.fail(`${id} was delivered ${count('email.delivered')} times by its timeline: ${story}`)
  }
  if (count('email.attempted') < copies.length) t.fail(`${id} has ${copies.length} copies and fewer attempts: ${story}`)
  if (count('email.in_doubt') < copies.length - 1) {
    t.fail(`${id} has ${copies.length} copies without a doubt for each after the first: ${story}`)
  }
  if (new Set(copies.map(copy => `${copy.messageId} ${copy.date}`)).size !== 1) {
    t.fail(`the copies of ${id} differ in Message-ID or Date`)
  }
}
