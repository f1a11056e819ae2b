import { randomUUID } from 'node:crypto'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { html, type Html } from '#src/base/html.ts'
import { JetpostError } from '#src/client/client.ts'
import type { ListTemplatesAnswer, SendEmailRequest } from '#src/client/types.ts'
import {
  fault,
  faultBox,
  field,
  form,
  heading,
  NO_FAULTS,
  select,
  postFaultsIn,
  type Faults,
  type FormField
} from '../parts.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'
import { utcTime } from '../times.ts'
import { named } from './email-format.ts'
import { ifAvailable } from '../error-pages.ts'
import { jsonIn } from './template-form.ts'

const NOT_LINKED = 'The key you signed in with may not send from this domain. ' +
  'Add the domain under Domains, or link it to the key under Keys.'

const FIELDS = [
  'from',
  'to',
  'cc',
  'bcc',
  'reply_to',
  'subject',
  'html',
  'text',
  'template_id',
  'variables',
  'tags',
  'scheduled_at'
] as const
type EmailForm = Record<typeof FIELDS[number], string>

/** Templates in the form's list; with more than that, the form has a field for the id. */
const TEMPLATES_MAX = 100

/** A form that sends an email by the API. */
export function newEmailPages (pages: Pages): void {
  pages.get('/emails/new', 'emails:send', async visit => {
    const typed = emailFormIn(visit.query)
    return await formPage(
      visit,
      { ...typed, from: typed.from === '' ? await lastSender(visit) : typed.from },
      randomUUID(),
      NO_FAULTS
    )
  })

  pages.post('/emails/new', 'emails:send', async visit => {
    const typed = emailFormIn(visit.form)
    const variables = variablesIn(typed.variables)
    const once = /^[\w-]{1,64}$/.exec(visit.form.get('once') ?? '')?.[0] ?? randomUUID()
    if (variables === null) {
      return await formPage(
        visit,
        typed,
        once,
        oneFault('variables', 'Variables must be a JSON object, such as {"name": "Ada"}.')
      )
    }
    try {
      const { id, status, suppressed = [] } = await visit.api.emails.send(requestOf(typed, variables), {
        idempotencyKey: once
      })
      return {
        to: `/dashboard/emails/${id}`,
        notice: NOTICES[status] + (suppressed.length === 0 ? '' : ` Suppressed: ${named(suppressed)}.`)
      }
    } catch (error) {
      return await refusedPage(visit, typed, once, error)
    }
  })
}

const NOTICES = {
  queued: 'Email accepted. It will be sent now.',
  scheduled: 'Email accepted and scheduled.',
  suppressed: 'Email accepted but not sent: its recipients are suppressed.'
}

function emailFormIn (given: URLSearchParams): EmailForm {
  // A browser sends line ends as CRLF.
  return Object.fromEntries(FIELDS.map(name => [name, (given.get(name) ?? '').replaceAll('\r\n', '\n')])) as EmailForm
}

/** The sender of the last email; at first an address of the sandbox, which needs no setup. */
async function lastSender ({ api }: Visit): Promise<string> {
  const sent = await ifAvailable(api.emails.page({ limit: 1 }))
  return sent?.data[0]?.from ?? `hello@${SANDBOX_DOMAIN}`
}

function variablesIn (text: string): Record<string, unknown> | null {
  const value = text.trim() === '' ? {} : jsonIn(text)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : null
}

function requestOf (typed: EmailForm, variables: Record<string, unknown>): SendEmailRequest {
  return {
    from: typed.from.trim(),
    to: listed(typed.to),
    ...given('cc', listed(typed.cc)),
    ...given('bcc', listed(typed.bcc)),
    ...given('reply_to', listed(typed.reply_to)),
    ...given('subject', typed.subject),
    ...given('html', typed.html),
    ...given('text', typed.text),
    ...given('template_id', typed.template_id.trim()),
    ...(Object.keys(variables).length === 0 ? {} : { variables }),
    ...given('tags', typed.tags.split(',').map(tag => tag.trim()).filter(tag => tag !== '')),
    ...given('scheduled_at', utcTime(typed.scheduled_at.trim()))
  }
}

function given (name: keyof SendEmailRequest, value: string | string[]): Partial<SendEmailRequest> {
  return value.length === 0 ? {} : { [name]: value }
}

/** Addresses with commas, semicolons or lines between them; a name in quotes may hold a comma. */
function listed (text: string): string[] {
  return (text.match(/(?:"(?:[^"\\]|\\.)*"|[^",;\n])+|"/g) ?? []).map(part => part.trim()).filter(part => part !== '')
}

async function refusedPage (visit: Visit, typed: EmailForm, once: string, error: unknown): Promise<PageResult> {
  if (error instanceof JetpostError && error.code === 'idempotency_mismatch') {
    const { email_id: id = '' } = error.body as { email_id?: string }
    const before = html`This form already sent <a href="/dashboard/emails/${id}">an email</a>.
Send it again to send a second one.`
    return await formPage(visit, typed, randomUUID(), fault(before))
  }
  const isForbidden = error instanceof JetpostError && error.status === 403
  return await formPage(
    visit,
    typed,
    once,
    isForbidden
      ? oneFault('from', NOT_LINKED)
      : postFaultsIn(error, 'once')
  )
}

function oneFault (name: string, text: string): Faults {
  return { of: field => (field === name ? text : null), summary: text }
}

async function formPage (visit: Visit, typed: EmailForm, once: string, faults: Faults): Promise<PageResult> {
  // Emails can be sent while the list of templates is unavailable.
  const templates = await ifAvailable(visit.api.templates.page({ limit: TEMPLATES_MAX }))
  const line = (name: keyof EmailForm, label: string, more: Partial<FormField> = {}) =>
    field({ name, label, value: typed[name], ...more }, faults)
  const many = 'Separate several with commas.'
  const page = html`${heading('Send an email', null, html`<a href="/dashboard/emails">Emails</a>`)}${faultBox(faults)}
${
    form(
      visit,
      { action: '/dashboard/emails/new', class: 'fields', guard: faults },
      html`<input type="hidden" name="once" value="${once}">
<section class="card fields" aria-label="Who and what">
${
        line('from', 'From', {
          required: true,
          hint: html`An address on <a href="/dashboard/domains">your domain</a>, or any address
@${SANDBOX_DOMAIN}, which needs no setup.`
        })
      }
${
        line('to', 'To', {
          required: true,
          hint: `${many} To test, use delivered@${SANDBOX_DOMAIN} or bounced@${SANDBOX_DOMAIN}.`
        })
      }
<div class="columns">${line('cc', 'Cc')}${line('bcc', 'Bcc')}${line('reply_to', 'Reply to')}</div>
${line('subject', 'Subject')}</section>
<section class="card fields" aria-label="Content">
${line('html', 'HTML', { rows: 8, code: true })}${
        line('text', 'Text', { rows: 5, hint: 'If empty, Jetpost makes it from the HTML.' })
      }
${templateFields(typed, templates, line)}</section>
<section class="card fields" aria-label="More">
<div class="columns">${line('tags', 'Tags', { hint: many })}${
        line('scheduled_at', 'Send at (UTC)', { type: 'datetime-local', hint: 'If empty, Jetpost sends it now.' })
      }</div></section>
<div class="actions"><button class="primary">Send</button></div>`
    )
  }`
  return { title: 'Send an email', section: 'emails', status: faults.summary === null ? 200 : 422, page }
}

function templateFields (
  typed: EmailForm,
  templates: ListTemplatesAnswer | null,
  line: (name: keyof EmailForm, label: string, more?: Partial<FormField>) => Html
): Html | null {
  const { data, has_more: more } = templates ?? { data: [], has_more: true }
  if (data.length === 0 && !more) return null
  const isKnown = typed.template_id === '' || data.some(({ id }) => id === typed.template_id)
  const choice = more || !isKnown
    ? line('template_id', 'Template', { hint: 'A template id, instead of HTML and text.' })
    : select('template_id', 'Template instead of HTML and text', [
      ['', 'None'],
      ...data.map(({ id, name }): [string, string] => [id, name])
    ], typed.template_id)
  const variables = line('variables', 'Variables', {
    rows: 4,
    code: true,
    hint: 'A JSON object for the template.',
    placeholder: '{"name": "Ada"}'
  })
  return html`<div class="columns">${choice}${variables}</div>`
}
