import type { Email } from 'postal-mime'
import { html, type Html } from '#src/base/html.ts'
import { JetpostError } from '#src/client/client.ts'
import { readHead, readMail, subjectOf, UNREADABLE } from '#src/content/read.ts'
import type { CaughtMail, CaughtMailbox } from '#src/operations/caught-mail.ts'
import { curlFor, FIRST_EMAIL } from '../curl.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { download } from '../download.ts'
import { ifAvailable } from '../error-pages.ts'
import { framed, imagesNote, mailFrame, withPictures } from '../mail-frame.ts'
import {
  badge,
  codeBlock,
  copyable,
  detailList,
  empty,
  heading,
  pager,
  refreshed,
  size,
  table,
  tabs,
  time,
  withQuery
} from '../parts.ts'
import { PageNotFound, type PageResult, type Pages, type Visit } from '../visit.ts'

/** An attachment. */
interface MailFile {
  name: string
  type: string
  body: Buffer
}

/** A mail in a list. `author` = of the From header: the envelope has the return path, an address for bounces. */
interface MailHead {
  subject: string
  author: string
}

const heads = new WeakMap<CaughtMail, MailHead>()

/** Reads the headers only, and once: the list refreshes every few seconds. */
async function headIn (mail: CaughtMail): Promise<MailHead> {
  const known = heads.get(mail)
  if (known !== undefined) return known
  const read = await readHead(mail.raw)
  const head = { subject: subjectOf(read) || '(no subject)', author: read.from?.address || mail.from || '<>' }
  heads.set(mail, head)
  return head
}

function filesOf ({ attachments }: Email): MailFile[] {
  return attachments.map(({ filename, mimeType, content }, i) => ({
    name: filename ?? `file-${i + 1}`,
    type: mimeType,
    body: Buffer.from(content as ArrayBuffer)
  }))
}

/** The email's id in a Message-ID of ours; null for any other. */
function emailIdIn (messageId: string | undefined): string | null {
  return /^<(em_[0-9a-z]{26})\.\d+@/.exec(messageId ?? '')?.[1] ?? null
}

const PAGE_ROWS = 50
const REFRESH_S = 3
const SOURCE_BYTES_MAX = 200_000

/** The mail in the built-in mail catcher: for operators, where this process runs one. */
export function mailboxPages (pages: Pages, { mailbox, publicUrl }: DashboardContext): void {
  pages.get('/mailbox', 'operator', async visit => await listPage(visit, own(visit), publicUrl))

  pages.get('/mailbox/:id', 'operator', async visit => {
    const mail = find(visit)
    const read = await readMail(mail.raw)
    const [head, email] = await Promise.all([headIn(mail), ownEmail(visit, emailIdIn(read.messageId))])
    return mailPage(visit, { ...mail, ...head }, read, email)
  })

  pages.get('/mailbox/:id/html', 'operator', async visit => {
    const { html: body = '', attachments } = await readMail(find(visit).raw)
    return framed(withPictures(body, attachments), { images: visit.query.has('images') })
  })

  pages.get('/mailbox/:id/source', 'operator', async visit => {
    const { id, raw } = find(visit)
    return download('message/rfc822', `${id}.eml`, raw)
  })

  pages.get('/mailbox/:id/files/:place', 'operator', async visit => {
    const file = filesOf(await readMail(find(visit).raw))[Number(visit.params.place)]
    if (file === undefined) throw new PageNotFound('This attachment does not exist.')
    return download('application/octet-stream', file.name, file.body)
  })

  function own (visit: Visit): CaughtMailbox {
    if (mailbox === null || !visit.isOperator) throw new PageNotFound()
    return mailbox
  }

  function find (visit: Visit): CaughtMail {
    const mail = own(visit).message(visit.params.id!)
    if (mail === null) throw new PageNotFound(`This mail is not in the mailbox. ${LIMITS}`)
    return mail
  }
}

async function listPage (visit: Visit, mailbox: CaughtMailbox, publicUrl: string): Promise<PageResult> {
  const all = mailbox.messages()
  const before = visit.query.get('cursor')
  const left = before === null ? all : all.filter(({ id }) => id < before)
  const shown = left.slice(0, PAGE_ROWS)
  const rows = await Promise.all(shown.map(async mail => ({ ...mail, ...await headIn(mail) })))
  const body = rows.length === 0
    ? nothingYet(publicUrl)
    : html`${rowsOf(visit, rows)}${pager(visit, left.length > PAGE_ROWS ? shown.at(-1)!.id : null)}`
  const page = html`${heading('Mailbox')}
<p class="hint">Mail that the built-in mail catcher keeps instead of delivering it: all mail while neither a relay nor
direct mode is set up, and always mail of test keys and to test addresses. ${LIMITS}</p>
<div ${refreshed(visit, REFRESH_S, 'caught')}>${body}</div>`
  return { title: 'Mailbox', section: 'mailbox', page }
}

const LIMITS = 'It holds the newest 500 mails in memory, up to 200 MB, until Jetpost stops.'

type MailboxRow = CaughtMail & MailHead

function rowsOf (visit: Visit, rows: MailboxRow[]): Html {
  return table(
    'Caught mail, newest first',
    [
      {
        name: 'Subject',
        kind: 'wide',
        cell: ({ id, subject }) => html`<a href="/dashboard/mailbox/${id}">${subject}</a>`
      },
      { name: 'To', cell: ({ to }) => to.join(', ') },
      { name: 'From', kind: 'late', cell: ({ author }) => author },
      { name: 'Size', kind: 'num', cell: ({ raw }) => size(raw.length) },
      { name: 'Received', cell: ({ receivedMs }) => time(new Date(receivedMs), visit.nowMs) }
    ],
    rows,
    ({ id }) => id
  )
}

function nothingYet (publicUrl: string): Html {
  const curl = curlFor(publicUrl, '/api/emails', FIRST_EMAIL)
  return empty(
    'No mail yet',
    'Send an email to a test address. It appears here within seconds.',
    codeBlock(curl, 'Send an email')
  )
}

/** The id of the email if it is the visitor's; null for other accounts' mail, and while emails are unavailable. */
async function ownEmail ({ api }: Visit, id: string | null): Promise<string | null> {
  try {
    return id === null ? null : (await ifAvailable(api.emails.get(id)))?.id ?? null
  } catch (error) {
    if (error instanceof JetpostError && error.status === 404) return null
    throw error
  }
}

const UNPARSABLE = html`<p class="box warn">This mail cannot be parsed: its headers are longer than 2 MB, or its parts
are nested too deeply. Its source is below.</p>`

const VIEWS = { html: 'HTML', text: 'Text', headers: 'Headers', source: 'Source' }
type MailView = keyof typeof VIEWS

function mailPage (visit: Visit, mail: MailboxRow, read: Email, email: string | null): PageResult {
  const views = (Object.keys(VIEWS) as MailView[]).filter(view => view === 'source' || (read[view]?.length ?? 0) > 0)
  const view = views.find(name => name === visit.query.get('view')) ?? views[0]!
  const page = html`${
    heading(
      mail.subject,
      html`${email !== null && html`<a class="button" href="/dashboard/emails/${email}">Open the email</a>`}
<a class="button" href="/dashboard/mailbox/${mail.id}/source">Download .eml</a>`,
      html`<a href="/dashboard/mailbox">Mailbox</a>`
    )
  }
<section class="card" aria-label="Envelope">${
    detailList([
      ['From', mail.from || '<>'],
      ['To', mail.to.join(', ')],
      ['Received', time(new Date(mail.receivedMs), visit.nowMs)],
      ['Size', size(mail.raw.length)],
      read.messageId === undefined ? null : ['Message-ID', copyable(read.messageId, 'Copy the Message-ID')]
    ])
  }</section>
${read === UNREADABLE && UNPARSABLE}${
    tabs(
      'Parts of the mail',
      views.map(name => ({ href: withQuery(visit, { view: name }), text: VIEWS[name], isCurrent: name === view }))
    )
  }
${partOf(visit, mail, read, view)}
${read.attachments.length > 0 && filesCard(mail, read)}`
  return { title: mail.subject, section: 'mailbox', page }
}

function partOf (visit: Visit, mail: CaughtMail, read: Email, view: MailView): Html {
  switch (view) {
    case 'html':
      return htmlView(visit, mail)
    case 'text':
      return codeBlock(read.text!, 'Text of the mail')
    case 'headers':
      return table('Headers, in their order', [
        { name: 'Header', cell: ({ key }) => html`<code>${key}</code>` },
        { name: 'Value', cell: ({ value }) => html`<code>${value}</code>` }
      ], read.headers)
    case 'source':
      return sourceView(mail)
  }
}

function htmlView (visit: Visit, { id }: CaughtMail): Html {
  const images = visit.query.has('images')
  return html`<p class="hint">${imagesNote(visit)}</p>
${mailFrame(`/dashboard/mailbox/${id}/html${images ? '?images=1' : ''}`, 'HTML of the mail')}`
}

function sourceView ({ raw }: CaughtMail): Html {
  const shown = new TextDecoder().decode(raw.subarray(0, SOURCE_BYTES_MAX))
  return html`${
    raw.length > SOURCE_BYTES_MAX &&
    html`<p class="hint">The first ${size(SOURCE_BYTES_MAX)}. Download the file to see all of it.</p>`
  }${codeBlock(shown, 'Source of the mail')}`
}

function filesCard ({ id }: CaughtMail, read: Email): Html {
  return html`<section class="card below"><h2>Attachments</h2>${
    table('Attachments of the mail', [
      {
        name: 'Name',
        kind: 'wide',
        cell: ({ file, place }) => html`<a href="/dashboard/mailbox/${id}/files/${place}">${file.name}</a>`
      },
      { name: 'Type', cell: ({ file }) => badge(file.type, 'calm') },
      { name: 'Size', kind: 'num', cell: ({ file }) => size(file.body.length) }
    ], filesOf(read).map((file, place) => ({ file, place })))
  }</section>`
}
