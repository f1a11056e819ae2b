import { Agent, request } from 'undici'
import { asError, errorCode } from '#src/base/errors.ts'
import { KeyedSemaphore } from '#src/base/keyed-semaphore.ts'
import { FILES_BYTES_MAX } from '#src/content/attachments.ts'
import { createConnector, TargetRefused, type Resolve } from '#src/dns/guard.ts'
import type { MayCallPrivate } from '#src/actions/services.ts'
import type { RemoteFile } from './email.ts'

/** All files of one email together have so long. */
const TIMEOUT_MS = 10_000
const HEADER_BYTES_MAX = 16_384
/** Emails whose files are fetched at once: each may hold as much as its files may have. */
const TURNS = { max: 4, maxPerKey: 1, waitMs: 10_000, waitingMax: 50, waitingMaxPerKey: 10 }

/** Why a file was not fetched, as who asked for it may read it; goes on from "path must ". */
export class FetchRefused extends Error {}

export interface RemoteFilesOptions {
  /** Whose files may lie at http and private addresses. */
  mayCallPrivate: MayCallPrivate
  resolve?: Resolve
  timeoutMs?: number
}

/** Fetches files that a request names by URL: from addresses that may be called, as much as an email may have, in
 *  bounded time, without redirects. */
export class RemoteFiles {
  private readonly options: RemoteFilesOptions
  private readonly turns = new KeyedSemaphore(TURNS)
  private readonly agents: Record<'open' | 'guarded', Agent>

  constructor (options: RemoteFilesOptions) {
    this.options = options
    const agent = (allowPrivate: boolean) =>
      new Agent({
        connect: createConnector(allowPrivate, { resolve: options.resolve }),
        maxHeaderSize: HEADER_BYTES_MAX,
        maxResponseSize: FILES_BYTES_MAX,
        keepAliveTimeout: 1
      })
    this.agents = { open: agent(true), guarded: agent(false) }
  }

  /** The bytes of files in base64, in their order; null when too many emails wait for theirs. Throws FetchRefused with
   *  the place of the file in `cause`. */
  async fetch (account: string, files: readonly RemoteFile[]): Promise<string[] | null> {
    if (!await this.turns.acquire(account)) return null
    const signal = AbortSignal.timeout(this.options.timeoutMs ?? TIMEOUT_MS)
    try {
      const contents: string[] = []
      let left = FILES_BYTES_MAX
      for (const file of files) {
        const bytes = await this.read(account, file, left, signal).catch((error: unknown) => {
          throw new FetchRefused(wordsFor(error, signal), { cause: file })
        })
        left -= bytes.length
        contents.push(bytes.toString('base64'))
      }
      return contents
    } finally {
      this.turns.release(account)
    }
  }

  async close (): Promise<void> {
    await Promise.all(Object.values(this.agents).map(agent => agent.destroy()))
  }

  private async read (
    account: string,
    { url: text }: RemoteFile,
    bytesMax: number,
    signal: AbortSignal
  ): Promise<Buffer> {
    const isOpen = this.options.mayCallPrivate(account)
    const url = URL.parse(text)
    const schemes = isOpen ? ['https:', 'http:'] : ['https:']
    if (url === null || !schemes.includes(url.protocol) || url.username !== '' || url.password !== '') {
      throw new FetchRefused(`be a URL that starts with ${schemes.map(name => `${name}//`).join(' or ')}`)
    }
    const dispatcher = this.agents[isOpen ? 'open' : 'guarded']
    const headers = { 'user-agent': 'Jetpost', 'accept-encoding': 'identity' }
    const { statusCode, body } = await request(url, { dispatcher, signal, headers })
    if (statusCode !== 200) {
      body.on('error', () => {}).destroy()
      throw new FetchRefused(`answer 200: it answered ${statusCode}`)
    }
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > bytesMax) throw new FetchRefused('have at most 10 MB, together with the other files')
      chunks.push(chunk)
    }
    return Buffer.concat(chunks)
  }
}

function wordsFor (thrown: unknown, signal: AbortSignal): string {
  if (thrown instanceof FetchRefused) return thrown.message
  const error = asError(thrown)
  if (error instanceof TargetRefused) return `be public: ${error.message}`
  if (signal.aborted) return 'answer within 10 seconds'
  return errorCode(error) === 'UND_ERR_RES_EXCEEDED_MAX_SIZE' ? 'have at most 10 MB' : 'name a file that can be fetched'
}
