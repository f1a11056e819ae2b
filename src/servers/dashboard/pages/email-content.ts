import type { Attachment } from 'postal-mime'
import { JetpostError } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email, EmailContent } from '#src/client/types.ts'
import { readMail } from '#src/content/read.ts'
import { download } from '../download.ts'
import { framed, mailFrame, namedPictures, withPictures } from '../mail-frame.ts'
import { counted, select, withQuery } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, type Pages, type Visit } from '../visit.ts'
import { shownAddress } from './email-format.ts'

/** Of a text or a source as much is shown on a page; the rest is a download away. */
const SHOWN_CHARS_MAX = 60_000

/** What is in an email, each behind a URL of its own: the HTML for the frame of its preview, and the source to keep. */
export function emailContentPages (pages: Pages): void {
  pages.get('/emails/:id/frame', async visit => {
    const content = await contentOf(visit)
    if (content?.html == null) throw new PageNotFound('This email has no HTML part, or it is no longer kept.')
    return framed(withPictures(content.html, await attachmentsOf(visit, content.html)), {
      images: visit.query.get('images') === '1'
    })
  })

  pages.get('/emails/:id/source', async visit => {
    const raw = await rawOf(visit)
    if (raw === null) throw new PageNotFound('The content of this email is no longer kept.')
    return download('message/rfc822', `${visit.params.id}-${recipientOf(visit)}.eml`, Buffer.from(raw))
  })
}

async function contentOf ({ api, params }: Visit): Promise<EmailContent | null> {
  return await unlessGone(api.emails.content(params.id!))
}

async function rawOf (visit: Visit): Promise<Uint8Array | null> {
  return await unlessGone(visit.api.emails.raw(visit.params.id!, recipientOf(visit)))
}

function recipientOf ({ query }: Visit): number {
  const n = Number(query.get('recipient') ?? 0)
  return Number.isInteger(n) && n >= 0 && n < 50 ? n : 0
}

async function unlessGone<T> (asked: Promise<T>): Promise<T | null> {
  return await asked.catch(error => {
    if (error instanceof JetpostError && error.code === 'content_expired') return null
    throw error
  })
}

async function attachmentsOf (visit: Visit, body: string): Promise<Attachment[]> {
  const raw = namedPictures(body).size > 0 ? await rawOf(visit) : null
  return raw === null ? [] : (await readMail(raw)).attachments
}

/** The HTML as a mail program would show it, and the text beside it. */
export async function previewTab (visit: Visit, context: DashboardContext, { id }: Email): Promise<Html> {
  const content = await contentOf(visit)
  if (content === null) return goneBox(context)
  const text = content.text !== null &&
    html`<section class="card" aria-labelledby="text-title"><h2 id="text-title">Text</h2>
<pre tabindex="0" role="region" aria-label="The text part">${shortened(content.text)}</pre></section>`
  return html`${content.html !== null && htmlPart(visit, id)}${text}
${content.html === null && html`<p class="hint">This email has no HTML part.</p>`}
${
    content.text === null &&
    html`<p class="hint">No text was given with it: what goes out beside the HTML is made from it, see the source.</p>`
  }`
}

function htmlPart (visit: Visit, id: string): Html {
  const isOpen = visit.query.get('images') === '1'
  const pictures = isOpen
    ? html`Pictures of other servers are shown. <a href="${withQuery(visit, { images: null })}">Hide them</a>`
    : html`Pictures of other servers are not loaded: that would tell them that somebody looked. <a href="${
      withQuery(visit, { images: '1' })
    }">Show them</a>`
  return html`<section class="card" aria-labelledby="html-title"><h2 id="html-title">HTML</h2><p class="hint">${pictures} Nothing in it runs; links open beside the page.</p>
${mailFrame(`/dashboard/emails/${id}/frame${isOpen ? '?images=1' : ''}`, 'The HTML part')}</section>`
}

/** The message of one recipient as it goes out. */
export async function sourceTab (visit: Visit, context: DashboardContext, { id, recipients }: Email): Promise<Html> {
  const raw = await rawOf(visit)
  if (raw === null) return goneBox(context)
  const n = recipientOf(visit)
  const text = shortened(new TextDecoder().decode(raw.subarray(0, SHOWN_CHARS_MAX + 1)))
  const options = recipients.map(({ n: place, address }): [string, string] => [String(place), shownAddress(address)])
  const choice = recipients.length === 1 ?
    null :
    html`<form method="get" action="/dashboard/emails/${id}" class="filters"><input type="hidden" name="tab" value="source">
${select('recipient', 'Recipient', options, String(n), html`data-submit`)}<button>Show</button></form>`
  return html`<section class="card" aria-labelledby="source-title"><h2 id="source-title">Source</h2>
<p class="hint">${
    counted(raw.length, 'byte')
  } of RFC 5322, as it goes to this recipient; who has it can unsubscribe them.
<a href="/dashboard/emails/${id}/source?recipient=${n}" download>Download</a></p>
${choice}<div class="code"><pre tabindex="0" role="region" aria-label="The source"><code>${text}</code></pre></div></section>`
}

function shortened (text: string): string {
  return text.length <= SHOWN_CHARS_MAX ? text : `${text.slice(0, SHOWN_CHARS_MAX)}\n… (shortened)`
}

function goneBox ({ services }: DashboardContext): Html {
  const days = Math.round(services.settings.contentRetentionMs / 86_400_000)
  return html`<p class="box calm">The content of this email is no longer kept. It goes ${
    counted(days, 'day')
  } after the email was accepted,
or when all of its recipients were erased; what became of the email stays.</p>`
}
