import { basename } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Email, Jetpost, SendEmailRequest } from '#src/client/client.ts'
import { type CliCommand, readArgs, usageError } from './command.ts'
import { bytesOf } from './input.ts'
import { print } from './table.ts'
import { oneLine } from './text.ts'
import { withApi } from './with-api.ts'

const text = { type: 'string' } as const
const texts = { type: 'string', multiple: true } as const

const options = {
  from: text,
  to: texts,
  cc: texts,
  bcc: texts,
  'reply-to': texts,
  subject: text,
  html: text,
  'html-file': text,
  text,
  'text-file': text,
  template: text,
  var: texts,
  attach: texts,
  tag: texts,
  meta: texts,
  at: text,
  'idempotency-key': text,
  wait: { type: 'boolean', default: false }
} as const

type Values = ReturnType<typeof readArgs<typeof options>>['values']

export const send: CliCommand = {
  usage: `jetpost send --from <address> --to <address>… --subject <text>
             (--html <html> | --text <text> | --template <id>) [--wait] [--json]`,
  details: `  Uses the API of the service that runs on the data folder, or of JETPOST_PUBLIC_URL, with JETPOST_API_KEY.
  --from, --to, --cc, --bcc, --reply-to   an address, or "Ada <ada@example.com>"; all but --from repeatable
  --subject <text>
  --html <html>, --html-file <path>       one of them; - is standard input
  --text <text>, --text-file <path>       likewise
  --template <id>, --var <name>=<text>    a template and its variables; <name>:=<json> for other than text
  --attach <path>                         a file; repeatable
  --tag <tag>, --meta <name>=<text>       repeatable; <name>:=<json> for a number, true, false or null
  --at <time>                             not before then: 2026-12-24T18:00:00Z
  --idempotency-key <key>                 the same key sends once, however often this is run
  --wait                                  waits for the outcome; exit code 1 unless all were delivered`,
  async run (args) {
    const { values, positionals } = readArgs(args, options)
    if (positionals.length > 0) {
      throw usageError(`${JSON.stringify(positionals[0])} belongs to no option: see jetpost send --help.`)
    }
    const fields = await fieldsOf(values)
    await withApi(async jetpost => {
      const accepted = await jetpost.emails.send(fields, { idempotencyKey: values['idempotency-key'] })
      if (!values.wait) return print([{ ...accepted }], values.json)
      process.stderr.write(`${accepted.id} is accepted: waiting for its outcome.\n`)
      report(await ended(jetpost, accepted.id), values.json)
    })
  }
}

async function fieldsOf (values: Values): Promise<SendEmailRequest> {
  const { from, to, cc, bcc, subject, template, tag, at } = values
  if (from === undefined || to === undefined) throw usageError(`--from and --to are needed: ${send.usage}`)
  if (values['html-file'] === '-' && values['text-file'] === '-') {
    throw usageError('Only one of --html-file and --text-file can be standard input.')
  }
  return {
    from,
    to,
    cc,
    bcc,
    reply_to: values['reply-to'],
    subject,
    html: await content('html', values.html, values['html-file']),
    text: await content('text', values.text, values['text-file']),
    template_id: template,
    variables: pairs('var', values.var),
    attachments: values.attach === undefined ? undefined : await Promise.all(values.attach.map(attachment)),
    tags: tag,
    metadata: pairs('meta', values.meta) as SendEmailRequest['metadata'],
    scheduled_at: at
  }
}

async function content (
  name: string,
  given: string | undefined,
  path: string | undefined
): Promise<string | undefined> {
  if (given !== undefined && path !== undefined) throw usageError(`Either --${name} or --${name}-file, not both.`)
  return path === undefined ? given : (await bytesOf(path, BYTES_MAX)).toString('utf8')
}

async function attachment (path: string): Promise<{ filename: string, content: string }> {
  return { filename: basename(path), content: (await bytesOf(path, BYTES_MAX)).toString('base64') }
}

/** More than the API accepts of one file: its own message is better. */
const BYTES_MAX = 16 * 1024 * 1024

/** `name=text` and `name:=json`. */
function pairs (option: string, given: string[] | undefined): Record<string, unknown> | undefined {
  return given === undefined ? undefined : Object.fromEntries(given.map(pair => {
    const [, name, typed, value] = /^([^=]+?)(:?)=(.*)$/s.exec(pair) ?? []
    if (name === undefined) throw usageError(`--${option} takes a name and a value: --${option} order=1042.`)
    return [name, typed === '' ? value : json(option, name, value!)]
  }))
}

function json (option: string, name: string, value: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    throw usageError(`--${option} ${name}:= takes JSON; text goes with --${option} ${name}=.`)
  }
}

const POLL_MS_FIRST = 250
const POLL_MS_MAX = 5000
const ENDED = new Set(['delivered', 'bounced', 'failed', 'suppressed', 'canceled'])

/** Polls an email until nothing more will happen by itself: its retries end some time. */
async function ended (jetpost: Jetpost, id: string): Promise<Email> {
  for (let ms = POLL_MS_FIRST;; ms = Math.min(2 * ms, POLL_MS_MAX)) {
    const email = await jetpost.emails.get(id)
    // A held doubt waits for a person.
    if (
      email.recipients.every(({ status, next_attempt_at: next }) =>
        ENDED.has(status) || (status === 'in_doubt' && next === null)
      )
    ) return email
    await wait(ms)
  }
}

function report (email: Email, json: boolean): void {
  if (email.status !== 'delivered') process.exitCode = 1
  if (json) return print([{ ...email }], true)
  print(
    email.recipients.map(({ address, status, last_response: last }) => ({
      id: email.id,
      recipient: oneLine(address),
      status,
      response: oneLine(last?.response ?? last?.error ?? '')
    })),
    false
  )
}
