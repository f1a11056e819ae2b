import { JetpostError, refusedBy } from './error.ts'
import { operations, type Operations } from './operations.ts'

export interface JetpostOptions {
  /** Where Jetpost serves: `https://mail.example.com`. */
  url: string
  /** An API key, `jp_live_…` or `jp_test_…`. Keep it on servers: anyone who has it can send. */
  key: string
  /** Stands in for the global `fetch`. */
  fetch?: typeof globalThis.fetch
  /** For one try, from asking to the last byte of the answer, in ms. 30,000 unless told. */
  timeoutMs?: number
  /** Tries after the first. 3 unless told. */
  retries?: number
  /** For all tries of a request and the waits between them, in ms. 120,000 unless told. Where the service asks for a
   *  longer wait, it is not begun. */
  deadlineMs?: number
}

export interface CallOptions {
  /** Ends the request, also while it waits for its next try. */
  signal?: AbortSignal
}

export interface SendOptions extends CallOptions {
  /** The same key with the same body sends once, however often it is asked within 7 days. A random one unless told,
   *  kept over the tries of one call. */
  idempotencyKey?: string
}

export interface UploadOptions extends CallOptions {
  /** What the body is: one of the operation's `uploads`, the first unless told. */
  contentType?: string
}

export type OperationName = keyof Operations
type OptionsOf<Name extends OperationName> = typeof operations[Name] extends { idempotent: true } ? SendOptions
  : typeof operations[Name] extends { uploads: readonly string[] } ? UploadOptions
  : CallOptions
/** What a method takes: ids, body and query as the operation has them, then options. */
export type Arguments<Name extends OperationName> = [...taken: Operations[Name]['takes'], options?: OptionsOf<Name>]
export type Answer<Name extends OperationName> = Operations[Name]['answer']
export type Method<Name extends OperationName> = (...args: Arguments<Name>) => Promise<Answer<Name>>

interface Page {
  data: unknown[]
  next_cursor: string | null
}
export type ListName = { [Name in OperationName]: Answer<Name> extends Page ? Name : never }[OperationName]
export type ListMethod<Name extends ListName> = (
  ...args: Arguments<Name>
) => AsyncGenerator<Answer<Name>['data'][number], void, void>

/** An operation as every one of them may be. */
interface Operation {
  method: string
  path: string
  takes: readonly string[]
  idempotent?: true
  uploads?: readonly string[]
}

interface Prepared {
  url: URL
  init: RequestInit
  /** Asked twice, it does no more than asked once. */
  repeatable: boolean
  signal: AbortSignal | undefined
}

const FIRST_WAIT_MS = 500
const WAIT_MS_MAX = 8000

/** Asks for operations: puts a request together, sends it until it is answered for good, reads the answer. */
export class Caller {
  readonly #options: Required<JetpostOptions>

  /** Throws for a url or key that cannot be one. */
  constructor (
    { url, key, fetch = (...args) => globalThis.fetch(...args), timeoutMs = 30_000, retries = 3, deadlineMs = 120_000 }:
      JetpostOptions
  ) {
    this.#options = { url: baseUrl(url), key, fetch, timeoutMs, retries, deadlineMs }
    // What fetch says of a header that cannot be sent holds its value.
    if (typeof key !== 'string' || !/^[!-~]+$/.test(key)) {
      throw new TypeError('key is an API key: printable ASCII without spaces')
    }
  }

  /** Any operation of the API by its operationId. Throws JetpostError, or what `options.signal` was aborted with. */
  async request<Name extends OperationName> (name: Name, ...args: Arguments<Name>): Promise<Answer<Name>> {
    const request = this.#requestOf(operations[name], args)
    const endMs = performance.now() + this.#options.deadlineMs
    for (let tries = 1;; tries++) {
      const leftMs = Math.max(1, Math.ceil(endMs - performance.now()))
      const answer = await this.#try(request, Math.min(this.#options.timeoutMs, leftMs))
      if (!(answer instanceof JetpostError)) return answer as Answer<Name>
      const waitMs = waitAfter(tries, answer)
      if (tries > this.#options.retries || !mayRepeat(request, answer) || performance.now() + waitMs >= endMs) {
        throw answer
      }
      await sleep(waitMs, request.signal)
    }
  }

  protected method<Name extends OperationName> (name: Name): Method<Name> {
    return (...args) => this.request(name, ...args)
  }

  /** All that a list holds, page after page, from `query.cursor` on. */
  protected all<Name extends ListName> (name: Name): ListMethod<Name> {
    const request = (args: unknown[]) => this.request(name, ...args as Arguments<Name>) as Promise<Answer<ListName>>
    const place = (operations[name] as Operation).takes.indexOf('query')
    return async function* (...given) {
      const args: unknown[] = [...given]
      for (;;) {
        const { data, next_cursor: cursor } = await request(args)
        yield* data
        if (cursor === null) return
        args[place] = { ...args[place] as object, cursor }
      }
    }
  }

  /** An operation's answer as it comes in, for as long as it comes: what was thrown, or answered with a refusal, is a
   *  JetpostError. The answer must have begun within the time for one try; its end is `signal`'s matter. */
  protected async begin<Name extends OperationName> (
    name: Name,
    args: Arguments<Name>,
    more: Record<string, string>,
    signal: AbortSignal
  ): Promise<Response | JetpostError> {
    const { url, init } = this.#requestOf(operations[name], args)
    for (const [header, value] of Object.entries(more)) (init.headers as Headers).set(header, value)
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), this.#options.timeoutMs)
    try {
      const response = await this.#options.fetch(url, { ...init, signal: AbortSignal.any([late.signal, signal]) })
      return response.ok ? response : refusedBy(response, await response.text())
    } catch (cause) {
      return unreached(url, late.signal.aborted ? this.#options.timeoutMs : null, cause)
    } finally {
      clearTimeout(timer)
    }
  }

  /** The bytes of an answer as they come. A pause longer than the time for one try ends it. Throws JetpostError, or
   *  what `options.signal` was aborted with. */
  protected async *stream<Name extends OperationName> (
    name: Name,
    ...args: Arguments<Name>
  ): AsyncGenerator<Uint8Array, void, void> {
    const { url, signal } = this.#requestOf(operations[name], args)
    const ending = new AbortController()
    const ended = signal === undefined ? ending.signal : AbortSignal.any([ending.signal, signal])
    let timer: ReturnType<typeof setTimeout> | undefined
    try {
      const answer = await this.begin(name, args, {}, ended)
      if (answer instanceof JetpostError) throw answer
      const reader = answer.body!.getReader()
      for (;;) {
        timer = setTimeout(() => ending.abort(), this.#options.timeoutMs)
        const { done, value } = await reader.read()
        clearTimeout(timer)
        if (done) return
        yield value
      }
    } catch (cause) {
      signal?.throwIfAborted()
      throw cause instanceof JetpostError
        ? cause
        : unreached(url, ending.signal.aborted ? this.#options.timeoutMs : null, cause)
    } finally {
      clearTimeout(timer)
      ending.abort()
    }
  }

  #requestOf ({ method, path, takes, idempotent, uploads }: Operation, args: unknown[]): Prepared {
    const { url, key } = this.#options
    const given = new Map(takes.map((name, i) => [name, args[i]]))
    const { signal, idempotencyKey, contentType } = (args[takes.length] ?? {}) as SendOptions & UploadOptions
    const target = new URL(url + path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => segment(name, given.get(name))))
    for (const [name, value] of queryOf(given.get('query'))) target.searchParams.append(name, value)
    const headers = new Headers({ authorization: `Bearer ${key}` })
    if (takes.includes('body')) headers.set('content-type', contentType ?? uploads?.[0] ?? 'application/json')
    if (idempotent === true) headers.set('idempotency-key', idempotencyKey ?? crypto.randomUUID())
    const body = bodyOf(takes, given.get('body'), uploads !== undefined)
    // Followed, a redirected POST would become a GET.
    return {
      url: target,
      init: { method, headers, body, redirect: 'manual' },
      repeatable: method !== 'POST' || idempotent === true,
      signal
    }
  }

  /** One request and its answer. Throws when the caller's own signal says so. */
  async #try ({ url, init, signal }: Prepared, ms: number): Promise<unknown> {
    const timeout = AbortSignal.timeout(ms)
    try {
      const response = await this.#options.fetch(url, {
        ...init,
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal])
      })
      if (!response.ok) return refusedBy(response, await response.text())
      if (response.status === 204) return undefined
      const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
      return isJson ? await response.json() : new Uint8Array(await response.arrayBuffer())
    } catch (cause) {
      signal?.throwIfAborted()
      return unreached(url, timeout.aborted ? ms : null, cause)
    }
  }
}

/** `isRaw` = sent as it is, instead of as JSON. */
function bodyOf (takes: readonly string[], body: unknown, isRaw: boolean): RequestInit['body'] | undefined {
  if (!takes.includes('body')) return undefined
  return isRaw ? body as RequestInit['body'] : JSON.stringify(body ?? {})
}

/** `timeoutMs` = the time that was over, if it was. */
function unreached (url: URL, timeoutMs: number | null, cause: unknown): JetpostError {
  if (timeoutMs !== null) {
    return new JetpostError(`There was no answer within ${timeoutMs} ms`, { code: 'timeout', cause })
  }
  return new JetpostError(`Jetpost at ${url.origin} cannot be reached`, { code: 'network_error', cause })
}

/** Throws for what is no address of a service; what fetch would say of one with a password in it holds the password. */
function baseUrl (text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    throw new TypeError('url is where Jetpost serves, like https://mail.example.com')
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}

/** A part of a path. Throws for what would be another path: nothing, `.` and `..`. */
function segment (name: string, value: unknown): string {
  if (typeof value !== 'string' || /^\.{0,2}$/.test(value)) {
    throw new TypeError(`${name} cannot be ${JSON.stringify(value)}`)
  }
  return encodeURIComponent(value)
}

/** `metadata: { order: '7' }` goes as `metadata[order]=7`, and `type: ['a', 'b']` as `type=a&type=b`. */
function queryOf (query: unknown): Array<[string, string]> {
  return Object.entries(query ?? {}).flatMap(([name, value]): Array<[string, string]> => {
    if (value === undefined) return []
    if (Array.isArray(value)) return value.map(one => [name, String(one)])
    if (typeof value === 'object') {
      return Object.entries(value as object).map(([key, one]) => [`${name}[${key}]`, String(one)])
    }
    return [[name, String(value)]]
  })
}

/** Whether asking again can help, and cannot do anything twice. */
function mayRepeat ({ repeatable }: Prepared, { status, cause }: JetpostError): boolean {
  if (status === 429) return true
  if (status === null) return repeatable || wasRefused(cause)
  return repeatable && [502, 503, 504].includes(status)
}

/** Nobody listened, so nothing was heard. Node and Bun have a code for it, Deno a sentence; browsers do not tell. */
function wasRefused (error: unknown): boolean {
  const { code, message, cause, errors } = Object(error) as {
    code?: unknown
    message?: unknown
    cause?: unknown
    errors?: unknown[]
  }
  if (Array.isArray(errors) && errors.length > 0) return errors.every(wasRefused)
  return /ECONNREFUSED|ConnectionRefused|connection refused/i.test(`${code} ${message}`) ||
    (cause !== undefined && wasRefused(cause))
}

/** Doubling, with jitter; after what the service asks for, where it does. */
export function waitAfter (tries: number, { retryAfterS }: Pick<JetpostError, 'retryAfterS'>): number {
  const ownMs = Math.min(WAIT_MS_MAX, FIRST_WAIT_MS * 2 ** (tries - 1)) * (0.5 + Math.random() / 2)
  return (retryAfterS ?? 0) * 1000 + ownMs
}

/** Rejects with what `signal` was aborted with. */
export function sleep (ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal!.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
    if (signal?.aborted === true) stop()
  })
}
