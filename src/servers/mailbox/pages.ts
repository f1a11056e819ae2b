import { randomBytes } from 'node:crypto'
import cookie from '@fastify/cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Email } from 'postal-mime'
import { timestamp } from '#src/base/clock.ts'
import { Html, html } from '#src/base/html.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { readHead, readMail, subjectOf } from '#src/content/read.ts'
import type { CaughtMail } from '#src/operations/caught-mail.ts'
import type { Catcher } from './server.ts'

/** 128 bits, so that the link fits a line of a terminal. */
const TOKEN_BYTES = 16

/** Lets browsers of this machine into the mailbox: by a link that works once, and from then on by a cookie, until this
 *  process ends. Also what a proxy on this machine passes on comes from this machine, so an address opens nothing. */
export class MailboxDoor {
  /** Another one for each process: browsers send cookies of a host to all its ports. */
  readonly cookieName = `jetpost_mailbox_${randomBytes(4).toString('hex')}`
  private readonly ticket = randomBytes(32).toString('base64url')
  /** SHA-256 of the tokens that nobody has used. */
  private readonly unused = new Set<string>()

  /** For a link that works once. */
  mintToken (): string {
    const token = randomBytes(TOKEN_BYTES).toString('base64url')
    this.unused.add(sha256Hex(token))
    return token
  }

  /** What the browser keeps; null = the token was never made, or is used up. */
  enter (token: string): string | null {
    return this.unused.delete(sha256Hex(token)) ? this.ticket : null
  }

  isOpenTo (ticket: string | undefined): boolean {
    return ticket !== undefined && sha256Hex(ticket) === sha256Hex(this.ticket)
  }
}

const LOOPBACK = /^(::1|(::ffff:)?127\.\d+\.\d+\.\d+)$/
const LOCAL_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i
const PAGE_POLICY = [
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'"
].join('; ')
const SANDBOX = 'allow-popups allow-popups-to-escape-sandbox'
/** A mail may show its images and styles, as in a mail program. It runs no scripts, and requests nothing by http. */
const MAIL_POLICY = [
  `sandbox ${SANDBOX}`,
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  'img-src data: https:',
  "frame-ancestors 'self'"
].join('; ')

/** Where a link into the mailbox leads, before its token. */
export const MAILBOX_LINK_PATH = '/catcher?token='
/** A cookie for `/catcher` is sent to what is below it, and to no `/catcher.json`. Source: RFC 6265 5.1.4. */
const COOKIE_PATHS = ['/catcher', '/catcher.json']

interface CatcherOptions {
  catcher: Catcher
  door: MailboxDoor
  /** Whether a request comes with an operator's key. */
  isOperators(request: FastifyRequest): Promise<boolean>
}

/** `/catcher` and below: the mailbox of the mail catcher, for browsers of this machine that came by a link of the door,
 *  and for its scripts with an operator's key. Others get 403, and clients that are not on a loopback address 404. */
export async function catcherPages (
  app: FastifyInstance,
  { catcher, door, isOperators }: CatcherOptions
): Promise<void> {
  await app.register(cookie)
  app.addHook('onRequest', async (request, reply) => {
    if (!isLocal(request)) return await notFound(reply)
    reply.headers({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer'
    })
    const token = tokenIn(request)
    if (door.isOpenTo(request.cookies[door.cookieName])) {
      return token === null ? undefined : await reply.redirect('/catcher', 303)
    }
    if (await isOperators(request)) return
    // A HEAD asks what there is: the link stays good.
    const ticket = token === null || request.method !== 'GET' ? null : door.enter(token)
    if (ticket === null) return await page(reply.code(403), closedPage())
    for (const path of COOKIE_PATHS) {
      reply.setCookie(door.cookieName, ticket, { path, httpOnly: true, sameSite: 'strict' })
    }
    return await reply.redirect('/catcher', 303)
  })

  app.get('/catcher', async (_request, reply) => {
    const rows = await Promise.all(catcher.messages().map(summaryOf))
    return await page(reply, listPage(rows))
  })

  app.get('/catcher.json', async () => ({ data: await Promise.all(catcher.messages().map(summaryOf)) }))

  app.get<{ Params: { file: string } }>('/catcher/:file', async (request, reply) => {
    const [, id, form] = /^(msg_[0-9a-z]+)(\.eml|\.html)?$/.exec(request.params.file) ?? []
    const mail = id === undefined ? null : catcher.message(id)
    if (mail === null) return await notFound(reply)
    if (form === '.eml') return await reply.type('message/rfc822').send(mail.raw)
    const parsed = await readMail(mail.raw)
    if (form === '.html') return await htmlPart(reply, parsed)
    return await page(reply, mailPage(mail, parsed))
  })
}

/** By the socket. Requests through a proxy on this machine, or to a foreign name that resolves to it, are not local. */
function isLocal ({ socket, headers }: FastifyRequest): boolean {
  const forwarded = headers['x-forwarded-for'] ?? headers.forwarded ?? headers['x-real-ip']
  return forwarded === undefined && LOOPBACK.test(socket.remoteAddress ?? '') && LOCAL_HOST.test(headers.host ?? '')
}

/** Only the list has a link. */
function tokenIn ({ query, routeOptions: { url } }: FastifyRequest): string | null {
  const { token } = query as { token?: unknown }
  return url === '/catcher' && typeof token === 'string' ? token : null
}

function notFound (reply: FastifyReply): FastifyReply {
  return reply.code(404).send({ error: 'Not found' })
}

function htmlPart (reply: FastifyReply, { html: body = '' }: Email): FastifyReply {
  return reply.header('content-security-policy', MAIL_POLICY).type('text/html; charset=utf-8').send(
    `<base target="_blank">${body}`
  )
}

function page (reply: FastifyReply, body: Html): FastifyReply {
  return reply.header('content-security-policy', PAGE_POLICY).type('text/html; charset=utf-8').send(body.text)
}

interface CaughtMailSummary {
  id: string
  received_at: string
  from: string
  to: string[]
  subject: string
  message_id: string
  size_bytes: number
}

const summaries = new WeakMap<CaughtMail, CaughtMailSummary>()

/** Reads the headers only, and once: the list refreshes every few seconds. */
async function summaryOf (mail: CaughtMail): Promise<CaughtMailSummary> {
  const known = summaries.get(mail)
  if (known !== undefined) return known
  const { id, receivedMs, from, to, raw } = mail
  const head = await readHead(raw)
  const summary = {
    id,
    received_at: timestamp(receivedMs),
    from,
    to,
    subject: subjectOf(head),
    message_id: head.messageId ?? '',
    size_bytes: raw.length
  }
  summaries.set(mail, summary)
  return summary
}

function listPage (rows: CaughtMailSummary[]): Html {
  const body = rows.length === 0
    ? html`<p class="none">No mail yet. Mail that Jetpost sends without a relay appears here.</p>`
    : html`<table><thead><tr><th>Received</th><th>From</th><th>To</th><th>Subject</th></tr></thead><tbody>${
      rows.map(row)
    }</tbody></table>`
  return layout('Mailbox', html`<meta http-equiv="refresh" content="3">`, html`<h1>Mailbox</h1>${body}`)
}

function row ({ id, received_at: receivedAt, from, to, subject }: CaughtMailSummary): Html {
  const link = html`<a href="/catcher/${id}">${subject || '(no subject)'}</a>`
  return html`<tr><td><time>${receivedAt.slice(11, 19)}</time></td><td>${from}</td><td>${
    to.join(', ')
  }</td><td>${link}</td></tr>`
}

function closedPage (): Html {
  return layout(
    'Mailbox',
    html``,
    html`<h1>Mailbox</h1><p>Open it with the link that the start of Jetpost printed. The link works once, and from then
on for that browser. Where this process has a dashboard, the operator sees the same mail there, under Mailbox. A
script reads /catcher.json with the Bearer key of an operator.</p>`
  )
}

function mailPage (mail: CaughtMail, read: Email): Html {
  const { headers, text, html: body } = read
  const subject = subjectOf(read) || '(no subject)'
  const frame = html`<iframe title="HTML part" sandbox="${SANDBOX}" src="/catcher/${mail.id}.html"></iframe>`
  const lines = headers.map(({ key, value }) => html`<tr><th>${key}</th><td>${value}</td></tr>`)
  return layout(
    subject,
    html``,
    html`
<nav><a href="/catcher">← All mail</a> <a href="/catcher/${mail.id}.eml">Source</a></nav>
<h1>${subject}</h1>
<p>Envelope: ${mail.from || '<>'} → ${mail.to.join(', ')}, ${mail.raw.length} bytes, ${timestamp(mail.receivedMs)}</p>
${body === undefined ? html`` : html`<h2>HTML</h2>${frame}`}
${text === undefined ? html`` : html`<h2>Text</h2><pre>${text}</pre>`}
<h2>Headers</h2><table class="headers"><tbody>${lines}</tbody></table>`
  )
}

const STYLE = new Html(`<style>
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 15%, transparent) }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1rem; margin-top: 2rem }
table { width: 100%; border-collapse: collapse } th { text-align: left; font-weight: 600 }
th, td { padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line) }
th, td { vertical-align: top; overflow-wrap: anywhere }
.headers th { white-space: nowrap } .headers td, pre { font: 13px/1.5 ui-monospace, monospace }
pre, iframe { border: 1px solid var(--line); border-radius: 8px }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 1rem }
iframe { width: 100%; height: 60vh; background: #fff; color-scheme: light }
nav { display: flex; gap: 1rem } .none { padding: 4rem 0; text-align: center; opacity: .7 }
</style>`)

function layout (title: string, head: Html, body: Html): Html {
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>${head}${STYLE}</head>
<body>${body}</body></html>
`
}
