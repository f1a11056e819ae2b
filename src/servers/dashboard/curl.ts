import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'

/** An email that every account may send. */
export const FIRST_EMAIL = {
  from: `hello@${SANDBOX_DOMAIN}`,
  to: `delivered@${SANDBOX_DOMAIN}`,
  subject: 'It works',
  html: '<h1>It works</h1>'
}

/** Lines to paste that ask the API for something, by the key in the environment. `body` holds no apostrophe: it would
 *  end the shell's word. */
export function curlFor (publicUrl: string, path: string, body: object): string {
  return `curl ${publicUrl}${path} \\\n  -H "Authorization: Bearer $JETPOST_API_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '${
    JSON.stringify(body)
  }'`
}
