import { readConfig } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { Jetpost, JetpostError, type JetpostOptions } from '#src/client/client.ts'

/** Where the API is, and the key of the environment. Throws a Complaint without one. */
export function apiOfEnvironment (): { url: string, key: string } {
  const { publicUrl, apiKey } = readConfig(process.env)
  if (apiKey === null) throw new Complaint('Set JETPOST_API_KEY to an API key: jetpost keys create makes one.')
  return { url: publicUrl, key: apiKey }
}

/** The API as its clients have it, with the key of the environment. What it refuses is a Complaint. */
export async function withApi<T> (
  use: (jetpost: Jetpost) => Promise<T>,
  options: Pick<JetpostOptions, 'timeoutMs' | 'deadlineMs'> = {}
): Promise<T> {
  const { url, key } = apiOfEnvironment()
  try {
    return await use(new Jetpost({ url, key, ...options }))
  } catch (error) {
    throw error instanceof JetpostError ? new Complaint(sentence(error, url)) : error
  }
}

function sentence ({ status, message, requestId, helpUrl }: JetpostError, url: string): string {
  if (status === null) return `${message}: is JETPOST_PUBLIC_URL, ${url}, where Jetpost serves?`
  if (status === 401) return `${message}: the key in JETPOST_API_KEY is not one of ${url}.`
  if (status === 403) return `${message}\nWhat the key may do: jetpost me. What it must do: ${helpUrl ?? `${url}/docs`}`
  return status < 500 ? message : `${message} (request ${requestId})`
}
