import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'

/** An email that every account may send without a domain of its own. */
export const FIRST_EMAIL = {
  from: `hello@${SANDBOX_DOMAIN}`,
  to: `delivered@${SANDBOX_DOMAIN}`,
  subject: 'It works',
  html: '<h1>It works</h1>'
}

/** A POST to the API as a shell command, with the key in the environment. `body` must not contain an apostrophe: it
 *  would end the shell's word. */
export function curlFor (publicUrl: string, path: string, body: object): string {
  return [
    `curl ${publicUrl}${path}`,
    '-H "Authorization: Bearer $JETPOST_API_KEY"',
    '-H "Content-Type: application/json"',
    `-d '${JSON.stringify(body)}'`
  ].join(' \\\n  ')
}
