import { Complaint } from '#src/base/errors.ts'
import { JetpostError, type Email } from '#src/client/client.ts'
import { print, readArgs, usageError, type Command } from './command.ts'
import { atApi } from './open-client.ts'
import { oneLine } from './text.ts'

export const trace: Command = {
  usage: 'jetpost trace <email id> [--json]',
  means: 'what was asked, what became of each recipient, and all that happened, as the API tells it',
  async run (args) {
    const { values: { json }, positionals: [id, ...more] } = readArgs(args, {})
    if (id === undefined || more.length > 0) throw usageError(`usage: ${trace.usage}`)
    const email = await atApi(async jetpost => await jetpost.emails.get(id).catch(error => {
      throw error instanceof JetpostError && error.status === 404 ? new Complaint(`There is no email ${id}.`) : error
    }))
    if (json) return print([{ ...email }], true)
    console.log(lines({ text: `${email.id}  ${email.status}  ${JSON.stringify(oneLine(email.subject))}`, under: [request(email), recipients(email), timeline(email)] }).join('\n'))
  }
}

interface Branch {
  text: string
  under?: Branch[]
}

function lines ({ text, under = [] }: Branch): string[] {
  return [text, ...under.flatMap((branch, i) => {
    const last = i === under.length - 1
    const [first, ...rest] = lines(branch)
    return [`${last ? '└─' : '├─'} ${first}`, ...rest.map(line => `${last ? '  ' : '│ '} ${line}`)]
  })]
}

/** What was asked; what was left out is left out. */
function request (email: Email): Branch {
  const { from, to, cc, bcc, reply_to, tags, metadata, template, scheduled_at, attachments, key_id, test } = email
  const rows: Array<[string, string]> = [
    ['from', from],
    ['to', to.join(', ')],
    ['cc', cc.join(', ')],
    ['bcc', bcc.join(', ')],
    ['reply to', reply_to.join(', ')],
    ['template', template === null ? '' : `${template.id} version ${template.version}`],
    ['files', attachments.map(({ filename, size_bytes }) => `${filename} (${size_bytes} bytes)`).join(', ')],
    ['tags', tags.join(', ')],
    ['metadata', Object.entries(metadata).map(([name, value]) => `${name}=${value}`).join(', ')],
    ['scheduled', scheduled_at ?? ''],
    ['key', `${key_id}${test ? ' (test: to the catcher only)' : ''}`]
  ]
  return { text: `request  ${email.created_at}`, under: rows.filter(([, value]) => value !== '').map(([name, value]) => ({ text: `${name.padEnd(9)}  ${oneLine(value)}` })) }
}

function recipients ({ recipients: all }: Email): Branch {
  const wide = Math.max(...all.map(({ address }) => oneLine(address).length))
  return {
    text: 'recipients',
    under: all.map(({ kind, address, status, next_attempt_at: next, opened_at, clicked_at, complained_at, unsubscribed_at }) => {
      const marks = Object.entries({ opened_at, clicked_at, complained_at, unsubscribed_at }).filter(([, time]) => time !== null)
      const more = [...(next === null ? [] : [`next attempt ${next}`]), ...marks.map(([name, time]) => `${name.replace('_at', '')} ${time}`)]
      return { text: [kind.padEnd(3), oneLine(address).padEnd(wide), status, ...more].join('  ').trimEnd() }
    })
  }
}

type Entry = Email['timeline'][number]

function timeline ({ recipients: all, timeline: entries }: Email): Branch {
  const wide = Math.max(...entries.map(({ type }) => type.length))
  return {
    text: 'timeline',
    under: entries.map(entry => ({
      text: [entry.time, entry.type.padEnd(wide), ...(all.length > 1 ? [oneLine(entry.recipient ?? '')] : []), ...about(entry)].join('  ').trimEnd()
    }))
  }
}

/** What a fact says beyond its type, in words as short as they can be. */
function about (entry: Entry): string[] {
  const { attempt, response, error, class: kind, reason, detail, cause, held, url, machine, feedback, by, scheduled_at, next_attempt_at: next } = entry
  return [
    attempt === undefined ? null : `attempt ${attempt}`,
    response ?? error ?? null,
    kind ?? reason ?? feedback ?? by ?? null,
    detail ?? null,
    url ?? null,
    machine === true ? 'by a machine' : null,
    cause === undefined ? null : `the ${cause} was lost${held === true ? ', held' : ''}`,
    ...transaction(entry),
    scheduled_at === undefined ? null : `for ${scheduled_at}`,
    next == null ? null : `next attempt ${next}`
  ].filter(text => text !== null).map(oneLine)
}

/** How the words came to us. Where no server was asked there is nothing to tell, and a bounce mail does not know. */
function transaction ({ type, report, response, host, stage, tls, ms }: Entry): Array<string | null> {
  if (type === 'email.bounced' && report != null) return [host == null ? 'told by a report' : `told by a report of ${host}`]
  if (response == null && host == null) return []
  // No TLS is no news before it could be spoken of.
  const untold = tls === undefined || (tls === null && stage === 'connect')
  return [
    host == null ? null : `${host}${stage === undefined ? '' : ` at ${stage}`}`,
    untold ? null : tls === null ? 'no TLS' : `${tls.version}${tls.verified ? '' : ', not verified'}`,
    ms === undefined ? null : `${ms} ms`
  ]
}
