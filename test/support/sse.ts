import { connect, type Socket } from 'node:net'
import type { TestApp } from './app.ts'
import { until } from './wait.ts'

/** A line of server-sent events of the dashboard, as a browser holds it. */
export interface LiveLine {
  status: number
  /** Names of the events so far, in order. */
  events: string[]
  /** Resolves once there are more than `count`. */
  more(count: number): Promise<void>
  /** Resolves once the server has ended it. */
  ended(timeoutMs?: number): Promise<void>
  hasEnded(): boolean
  close(): void
}

/** Resolves once the answer has begun, whatever it is. */
export async function openLine (
  { url }: Pick<TestApp, 'url'>,
  cookie: string,
  path = '/dashboard/live'
): Promise<LiveLine> {
  const { hostname, port, host } = new URL(url)
  let text = ''
  let over = false
  const socket: Socket = connect(
    Number(port),
    hostname,
    () => socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nCookie: ${cookie}\r\n\r\n`)
  )
  socket.setEncoding('utf8').on('data', chunk => {
    text += String(chunk)
    // The response is chunked: its last chunk ends it, whatever becomes of the socket.
    if (text.includes('\r\n0\r\n\r\n')) over = true
  }).on('error', () => {}).on('close', () => {
    over = true
  })
  const events = () => [...text.matchAll(/^event: (\w+)$/gm)].map(([, name]) => name!)
  await until(() => text.includes('\r\n\r\n') || over, 10_000)
  return {
    status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0),
    get events () {
      return events()
    },
    more: async count => await until(() => events().length > count),
    ended: async (timeoutMs = 2000) => await until(() => over, timeoutMs),
    hasEnded: () => over,
    close: () => void socket.destroy()
  }
}
