import { Complaint } from '#src/base/errors.ts'
import { Jetpost, JetpostError, type JetpostOptions } from '#src/client/client.ts'
import { apiUrlOf, readSettings, type CommandSettings } from './settings.ts'

/** Where the API is, of the running service or as the environment says, and the key of the environment. */
export interface CommandApi extends Pick<CommandSettings, 'service'> {
  url: string
  key: string
}

/** Throws a Complaint where nothing runs and no URL is said, or without a key. */
export async function readApi (): Promise<CommandApi> {
  const settings = await readSettings()
  const url = apiUrlOf(settings)
  const { config: { apiKey }, service } = settings
  if (apiKey === null) throw new Complaint('Set JETPOST_API_KEY to an API key: jetpost keys create makes one.')
  return { url, key: apiKey, service }
}

/** The API as its clients have it, with the key of the environment. What it refuses is a Complaint. */
export async function withApi<T> (
  use: (jetpost: Jetpost) => Promise<T>,
  options: Pick<JetpostOptions, 'timeoutMs' | 'deadlineMs'> = {}
): Promise<T> {
  const api = await readApi()
  try {
    return await use(new Jetpost({ url: api.url, key: api.key, ...options }))
  } catch (error) {
    throw error instanceof JetpostError ? new Complaint(sentence(error, api)) : error
  }
}

function sentence ({ status, message, requestId, helpUrl }: JetpostError, { url, service }: CommandApi): string {
  if (status === null && url === service?.url) return `${message}: ${url} is the running service's.`
  if (status === null) return `${message}: is JETPOST_PUBLIC_URL, ${url}, where Jetpost serves?`
  if (status === 401) return `${message}: the key in JETPOST_API_KEY is not one of ${url}.`
  if (status === 403) return `${message}\nWhat the key may do: jetpost me. What it must do: ${helpUrl ?? `${url}/docs`}`
  return status < 500 ? message : `${message} (request ${requestId})`
}
