import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { deadline } from '#src/base/errors.ts'

/** One callback as it came in: the very bytes. */
export interface HookRequest {
  path: string
  headers: Record<string, string>
  body: Buffer
  /** Unix ms. */
  at: number
}

/** How the sink answers. `hang` = never; `reset` = cuts the line; `close` = ends it without a word; `dribble` = a
 *  status, then a body that never ends; `raw` = these bytes as they are, `more` again and again after them; `delayMs`
 *  and `until` before any of it. */
export interface HookAnswer {
  status?: number
  headers?: Record<string, string>
  body?: string
  delayMs?: number
  until?: Promise<void>
  hang?: boolean
  reset?: boolean
  close?: boolean
  dribble?: boolean
  raw?: string
  more?: string
}

export interface HookSink {
  url: string
  port: number
  requests: HookRequest[]
  /** From now on requests are answered like this; 200 until told. `index` counts the sink's requests from 0. */
  answers(how: (request: HookRequest, index: number) => HookAnswer): void
  /** Resolves to all requests once `enough` says so; rejects after `timeoutMs` with how many came. */
  waitFor(enough: (requests: HookRequest[]) => boolean, timeoutMs?: number): Promise<HookRequest[]>
  /** Most requests that were open at the same time. */
  atOnceMax(): number
  stop(): Promise<void>
}

/** A receiver of webhooks on a free loopback port that does as it is told. */
export async function startHookSink (): Promise<HookSink> {
  const requests: HookRequest[] = []
  const watchers = new Set<() => void>()
  const sockets = new Set<Socket>()
  let how: (request: HookRequest, index: number) => HookAnswer = () => ({})
  let open = 0
  let openMax = 0

  const server = createServer((incoming, outgoing) => {
    openMax = Math.max(openMax, ++open)
    outgoing.on('close', () => open--)
    incoming.on('error', () => {})
    void take(incoming).then(request => {
      requests.push(request)
      for (const watcher of watchers) watcher()
      return answer(outgoing, how(request, requests.length - 1))
    })
  })
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo

  async function waitFor (enough: (requests: HookRequest[]) => boolean, timeoutMs = 30_000): Promise<HookRequest[]> {
    let watcher = () => {}
    const seen = new Promise<void>(resolve => {
      watcher = () => {
        if (enough(requests)) resolve()
      }
      watchers.add(watcher)
      watcher()
    })
    try {
      await deadline(seen, timeoutMs, `the hook sink still waits after ${timeoutMs} ms`).catch(error => {
        throw new Error(`${error.message}; ${requests.length} requests came`)
      })
    } finally {
      watchers.delete(watcher)
    }
    return requests
  }

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    answers: told => {
      how = told
    },
    waitFor,
    atOnceMax: () => openMax,
    stop: () => stop(server, sockets)
  }
}

async function take (incoming: IncomingMessage): Promise<HookRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  return {
    path: incoming.url ?? '',
    headers: incoming.headers as Record<string, string>,
    body: Buffer.concat(chunks),
    at: Date.now()
  }
}

async function answer (outgoing: ServerResponse, told: HookAnswer): Promise<void> {
  const { status = 200, headers = {}, body = '', delayMs = 0, hang, reset, close, dribble, raw, more } = told
  await told.until
  if (delayMs > 0) await new Promise(resolve => setTimeout(resolve, delayMs).unref())
  if (hang === true) return
  if (reset === true) return void outgoing.socket?.resetAndDestroy()
  if (raw !== undefined) outgoing.socket?.write(raw)
  if (close === true) return void outgoing.socket?.end()
  if (raw !== undefined) return drip(outgoing.socket, more ?? '')
  outgoing.writeHead(status, headers)
  if (dribble !== true) return void outgoing.end(body)
  outgoing.write(body)
  drip(outgoing, '.')
}

function drip (line: Writable | null, text: string): void {
  const timer = setInterval(() => line?.write(text), 50).unref()
  line?.on('close', () => clearInterval(timer))
}

/** Lets nothing linger, hanging requests least of all. */
async function stop (server: Server, sockets: Set<Socket>): Promise<void> {
  const closed = new Promise(resolve => server.close(resolve))
  for (const socket of sockets) socket.destroy()
  await closed
}
