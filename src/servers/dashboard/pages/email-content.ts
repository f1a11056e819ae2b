import { JetpostError } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email, EmailContent } from '#src/client/types.ts'
import { picturesIn, type Picture } from '#src/content/submitted.ts'
import { download } from '../download.ts'
import { framed, imagesNote, mailFrame, namedPictures, withPictures } from '../mail-frame.ts'
import { counted, hiddenField, select } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, type Pages, type Visit } from '../visit.ts'
import { shownAddress } from './email-format.ts'

/** A longer text or source is cut; the download has all of it. */
const SHOWN_CHARS_MAX = 60_000

/** The content of an email: the HTML for the frame of its preview, and the source as a download. */
export function emailContentPages (pages: Pages): void {
  pages.get('/emails/:id/frame', 'emails:read', async visit => {
    const content = await contentOf(visit, visit.params.id!)
    if (content?.html == null) throw new PageNotFound('This email has no HTML, or its content has expired.')
    return framed(withPictures(content.html, await attachmentsOf(visit, content.html)), {
      images: visit.query.get('images') === '1'
    })
  })

  pages.get('/emails/:id/source', 'emails:read', async visit => {
    const raw = await rawOf(visit, visit.params.id!)
    if (raw === null) throw new PageNotFound('The content of this email has expired.')
    return download('message/rfc822', `${visit.params.id}-${recipientOf(visit)}.eml`, Buffer.from(raw))
  })
}

/** null = it has expired. */
export async function contentOf ({ api }: Visit, id: string): Promise<EmailContent | null> {
  return await unlessGone(api.emails.content(id))
}

/** The message as sent to the recipient that the URL names; null = its content has expired. */
export async function rawOf (visit: Visit, id: string): Promise<Uint8Array | null> {
  return await unlessGone(visit.api.emails.raw(id, recipientOf(visit)))
}

function recipientOf ({ query }: Visit): number {
  const n = Number(query.get('recipient') ?? 0)
  return Number.isInteger(n) && n >= 0 && n < 50 ? n : 0
}

async function unlessGone<T> (content: Promise<T>): Promise<T | null> {
  return await content.catch(error => {
    if (error instanceof JetpostError && error.code === 'content_expired') return null
    throw error
  })
}

/** The message may be one that somebody else has composed: no more of it is read than what the body names. */
async function attachmentsOf (visit: Visit, body: string): Promise<Picture[]> {
  const named = namedPictures(body)
  const raw = named.size > 0 ? await rawOf(visit, visit.params.id!) : null
  return raw === null ? [] : picturesIn(Buffer.from(raw), named)
}

export const NO_TEXT = 'This email was sent without text. Jetpost made a text part from the HTML: see the source.'

/** The HTML as a mail program would show it, and the text. */
export async function previewTab (visit: Visit, context: DashboardContext, { id }: Email): Promise<Html> {
  const content = await contentOf(visit, id)
  if (content === null) return goneBox(context)
  const text = content.text !== null &&
    html`<section class="card" aria-labelledby="text-title"><h2 id="text-title">Text</h2>
<pre tabindex="0" role="region" aria-label="The text part">${shortened(content.text)}</pre></section>`
  return html`${content.html !== null && htmlPart(visit, id)}${text}
${content.html === null && html`<p class="hint">This email has no HTML part.</p>`}
${
    content.text === null &&
    html`<p class="hint">${NO_TEXT}</p>`
  }`
}

function htmlPart (visit: Visit, id: string): Html {
  return html`<section class="card" aria-labelledby="html-title"><h2 id="html-title">HTML</h2>
<p class="hint">${imagesNote(visit)} Scripts do not run; links open in a new window.</p>
${emailFrame(visit, id)}</section>`
}

/** The HTML of an email in a frame. */
export function emailFrame ({ query }: Visit, id: string): Html {
  return mailFrame(`/dashboard/emails/${id}/frame${query.get('images') === '1' ? '?images=1' : ''}`, 'The HTML part')
}

/** The message as it is sent to one recipient. */
export async function sourceTab (visit: Visit, context: DashboardContext, { id, recipients }: Email): Promise<Html> {
  const raw = await rawOf(visit, id)
  if (raw === null) return goneBox(context)
  const n = recipientOf(visit)
  const text = shortened(new TextDecoder().decode(raw.subarray(0, SHOWN_CHARS_MAX + 1)))
  const options = recipients.map(({ n: place, address }): [string, string] => [String(place), shownAddress(address)])
  const choice = html`<form method="get" action="/dashboard/emails/${id}" class="filters">${
    hiddenField('tab', 'source')
  }
${select('recipient', 'Recipient', options, String(n), html`data-submit`)}<button>Show</button></form>`
  return html`<section class="card" aria-labelledby="source-title"><h2 id="source-title">Source</h2>
<p class="hint">${counted(raw.length, 'byte')}, as sent to this recipient. Its links can unsubscribe them.
<a href="/dashboard/emails/${id}/source?recipient=${n}" download>Download</a></p>
${recipients.length > 1 && choice}
<div class="code"><pre tabindex="0" role="region" aria-label="The source"><code>${text}</code></pre></div></section>`
}

export function shortened (text: string): string {
  return text.length <= SHOWN_CHARS_MAX ? text : `${text.slice(0, SHOWN_CHARS_MAX)}\n… (shortened)`
}

export function goneBox ({ services }: DashboardContext): Html {
  const days = Math.round(services.settings.contentRetentionMs / 86_400_000)
  return html`<p class="box calm">The content of this email has expired. Content is deleted ${counted(days, 'day')}
after an email is accepted, or when all its recipients are erased. The timeline stays.</p>`
}
