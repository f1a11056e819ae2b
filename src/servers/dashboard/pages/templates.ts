import { declaredNames } from '#projections/templates/queries.ts'
import { templates } from '#projections/templates/project.ts'
import { isVerifiedEnough } from '#streams/domain/decide.ts'
import { maySendFrom, SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { mustBeVerified } from '#src/actions/email.ts'
import { html, type Html } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { JetpostError } from '#src/client/client.ts'
import type { Template } from '#src/client/types.ts'
import { answerFrom } from '#src/postgres/reads.ts'
import { curlFor } from '../curl.ts'
import {
  buttonTo,
  codeBlock,
  cursorOf,
  empty,
  heading,
  NO_FAULTS,
  pager,
  postFaultsIn,
  table,
  time,
  type Faults
} from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'
import { framed } from '../mail-frame.ts'
import { ifAvailable } from '../error-pages.ts'
import { createPreviews, renderDraft, type TemplateDraft, type Previews } from './template-draft.ts'
import { editorPage, listed, NO_SUBJECT, previewPart, type EditorOptions, type EditorState } from './template-editor.ts'
import {
  changesOf,
  faultOf,
  NEW_TEMPLATE,
  readableVariables,
  requestOf,
  samplesOf,
  templateFormOf,
  templateFormIn,
  type TemplateForm
} from './template-form.ts'
import { sampleJson } from './template-samples.ts'
import { versionPages } from './template-versions.ts'

/** Sample variables per session and template, so that they are there again when a visitor comes back. */
const SAMPLES_MAX = 500
const SAMPLE_CHARS_MAX = 20_000
const LAYOUTS_MAX = 100
const DOMAINS_MAX = 100

/** Templates: the list, the editor with its preview, test emails. */
export function templatesPages (pages: Pages, context: DashboardContext): void {
  const editor = new TemplateEditor(context)
  pages.get('/templates', 'templates:read', async visit => await listPage(visit, context))
  pages.get(
    '/templates/new',
    'templates:write',
    async visit => await editor.page(visit, { typed: NEW_TEMPLATE, stored: null })
  )
  pages.post('/templates', 'templates:write', async visit => await editor.create(visit))
  pages.get('/templates/:id', 'templates:read', async visit => await editor.open(visit))
  pages.post('/templates/:id', 'templates:write', async visit => await editor.save(visit))
  pages.post('/templates/:id/test', 'emails:send', async visit => await editor.sendTest(visit))

  pages.post('/templates/:id/delete', 'templates:write', async visit => {
    await visit.api.templates.delete(visit.params.id!)
    return { to: '/dashboard/templates', notice: 'Template deleted.' }
  })

  pages.post('/templates/preview', 'templates:write', async visit => {
    const part = await editor.preview(visit, templateFormIn(visit.form))
    return { send: reply => reply.type('text/html; charset=utf-8').send(part.text) }
  })

  pages.get('/templates/previews/:preview', 'templates:write', async visit => {
    const body = editor.previewBody(visit)
    return body === null
      ? framed('<p>This preview has expired. Change the template to see a new one.</p>', { images: false, status: 404 })
      : framed(body, { images: visit.query.has('images') })
  })

  versionPages(
    pages,
    async (visit, stored) =>
      await editor.preview(visit, { ...templateFormOf(stored), samples: await samplesFor(visit, stored) })
  )
}

/** The template's next version, or the editor with its faults. `before` = null where the present version could not be
 *  read. */
type Saved = { before: Template | null, after: Template } | { refused: PageResult }

class TemplateEditor {
  private readonly context: DashboardContext
  private readonly previews: Previews
  private readonly samples = new Memory<string>(SAMPLES_MAX)

  constructor (context: DashboardContext) {
    this.context = context
    this.previews = createPreviews(() => context.services.factLog.clock.nowMs())
  }

  async create (visit: Visit): Promise<PageResult> {
    const typed = templateFormIn(visit.form)
    try {
      const { id } = await visit.api.templates.create(requestOf(typed))
      this.rememberSamples(visit, id, typed)
      return { to: `/dashboard/templates/${id}`, notice: 'Template created. Send emails with its id.' }
    } catch (error) {
      return await this.page(visit, { typed, stored: null, faults: postFaultsIn(error) })
    }
  }

  async open (visit: Visit): Promise<PageResult> {
    const stored = await visit.api.templates.get(visit.params.id!)
    // Who may not change it reads its present version.
    const reader = `/dashboard/templates/${stored.id}/versions/${stored.version}`
    if (!visit.may('POST', visit.url)) return { to: reader }
    const samples = this.samples.get(sampleKey(visit, stored.id)) ?? await samplesFor(visit, stored)
    return await this.page(visit, { typed: { ...templateFormOf(stored), samples }, stored })
  }

  async save (visit: Visit): Promise<PageResult> {
    const result = await this.store(visit, templateFormIn(visit.form))
    if ('refused' in result) return result.refused
    const { before, after } = result
    return {
      to: `/dashboard/templates/${after.id}`,
      notice: before?.version === after.version
        ? 'Nothing changed, so there is no new version.'
        : `Saved as version ${after.version}.`
    }
  }

  /** Saves the template, then sends an email from it. */
  async sendTest (visit: Visit): Promise<PageResult> {
    const typed = templateFormIn(visit.form)
    const result = await this.store(visit, typed)
    if ('refused' in result) return result.refused
    const { id: templateId, name, subject, version } = result.after
    const refuse = async (faults: Faults) =>
      await this.page(visit, { typed: { ...typed, version }, stored: result.after, faults })
    const variables = samplesOf(typed)
    if (typeof variables === 'string') return await refuse(faultOf('samples', variables))
    try {
      const { id } = await visit.api.emails.send({
        from: visit.form.get('from') ?? '',
        to: visit.form.get('to') ?? '',
        template_id: templateId,
        variables,
        ...(subject === null ? { subject: `Test of ${name}` } : {})
      })
      return { to: `/dashboard/emails/${id}`, notice: `Test of “${name.slice(0, 80)}”, version ${version}, accepted.` }
    } catch (error) {
      return await refuse(postFaultsIn(error))
    }
  }

  async page (visit: Visit, state: EditorState): Promise<PageResult> {
    const { typed, stored, faults = NO_FAULTS } = state
    const preview = await ifAvailable(this.preview(visit, typed)) ??
      html`<p class="hint">The layout is unavailable. The preview comes back with it.</p>`
    const options = await editorOptions(visit, this.context, stored?.id ?? null, preview)
    return {
      title: stored?.name ?? 'New template',
      section: 'templates',
      page: editorPage(visit, state, options),
      status: faults.summary === null ? 200 : 422
    }
  }

  async preview (visit: Visit, typed: TemplateForm): Promise<Html> {
    const given = samplesOf(typed)
    const { subject, html: body, text, rows, layout: layoutId } = typed
    const draft: TemplateDraft = {
      subject: subject || null,
      html: body || null,
      text: text || null,
      variables: readableVariables(rows),
      layout: layoutId || null
    }
    const layout = layoutId === '' ? null : await layoutById(visit, layoutId)
    const rendered = renderDraft(draft, layout, typeof given === 'string' ? {} : given)
    const faults = typeof given === 'string' ? [...rendered.faults, { message: given, source: null }] : rendered.faults
    return previewPart({ ...rendered, faults }, {
      id: rendered.html === null ? null : this.previews.keep(visit.session.id, rendered.html),
      images: typed.images
    })
  }

  /** The HTML that the preview's frame shows; null = it has expired. */
  previewBody ({ session, params }: Visit): string | null {
    return this.previews.take(session.id, params.preview!)
  }

  /** Stores the form as the next version. Where the present version cannot be read, the whole form is stored: earlier
   *  versions stay in any case. */
  private async store (visit: Visit, typed: TemplateForm): Promise<Saved> {
    const id = visit.params.id!
    const before = await ifAvailable(visit.api.templates.get(id))
    this.rememberSamples(visit, id, typed)
    if (before !== null && typed.version !== before.version) {
      const { version } = before
      const faults = faultOf('version', `Version ${version} was saved after you opened this page. ${SAVE_AGAIN}`)
      return { refused: await this.page(visit, { typed: { ...typed, version }, stored: before, faults }) }
    }
    try {
      const change = before === null ? requestOf(typed) : changesOf(typed, before)
      return { before, after: await visit.api.templates.update(id, change) }
    } catch (error) {
      const stored = before ?? { id, name: typed.name, version: typed.version ?? 1 }
      return { refused: await this.page(visit, { typed, stored, faults: postFaultsIn(error) }) }
    }
  }

  private rememberSamples (visit: Visit, id: string, { samples }: TemplateForm): void {
    if (samples.length <= SAMPLE_CHARS_MAX) this.samples.set(sampleKey(visit, id), samples)
  }
}

const SAVE_AGAIN = 'Save again to make yours the next version.'

const sampleKey = ({ session }: Visit, template: string): string => `${session.id} ${template}`

/** Leaves out what is unavailable: the editor must open all the same. */
async function editorOptions (
  visit: Visit,
  { services }: DashboardContext,
  own: string | null,
  preview: Html
): Promise<EditorOptions> {
  const [others, domains] = await Promise.all([
    ifAvailable(visit.api.templates.page({ limit: LAYOUTS_MAX })),
    ifAvailable(visit.api.domains.page({ limit: DOMAINS_MAX }))
  ])
  const layouts = others?.data.filter(({ id, layout_id: layout }) => layout === null && id !== own) ?? []
  const isRequired = mustBeVerified(services, visit.account.id)
  const usable = domains?.data.filter(domain => isVerifiedEnough(domain, isRequired)) ?? null
  const senders = usable && [...usable.map(({ name }) => name), SANDBOX_DOMAIN]
  return {
    layouts,
    preview,
    senders: senders && senders.filter(name => maySendFrom(visit.principal, name, visit.account.id))
  }
}

/** Without those of its layout while that is unavailable. */
async function samplesFor (visit: Visit, stored: Template): Promise<string> {
  const layout = stored.layout_id === null ? null : await ifAvailable(layoutById(visit, stored.layout_id))
  return sampleJson(stored, layout)
}

async function layoutById ({ api }: Visit, id: string): Promise<Template | null> {
  try {
    return await api.templates.get(id)
  } catch (error) {
    if (error instanceof JetpostError && error.status === 404) return null
    throw error
  }
}

async function listPage (visit: Visit, { reads, publicUrl }: DashboardContext): Promise<PageResult> {
  const { data, next_cursor: next } = await visit.api.templates.page({ limit: 25, ...cursorOf(visit) })
  const ids = data.map(({ id }) => id)
  const names = await answerFrom(reads, visit.account.id, templates, declaredNames({ account: visit.account.id, ids }))
  const list = data.length === 0 ? emptyList(publicUrl) : table('Templates, newest first', [
    { name: 'Name', cell: ({ id, name }) => html`<a href="/dashboard/templates/${id}">${name}</a>` },
    { name: 'Subject', cell: ({ subject }) => subject ?? NO_SUBJECT },
    { name: 'Variables', kind: 'late', cell: ({ id }) => variablesCell(names.get(id) ?? []) },
    { name: 'Version', kind: 'num', cell: ({ version }) => version },
    { name: 'Updated', cell: ({ updated_at: at }) => time(at, visit.nowMs) }
  ], data)
  const newLink = buttonTo(visit, '/dashboard/templates/new', 'New template', { primary: true })
  const page = html`${heading('Templates', newLink)}
${list}
${pager(visit, next)}`
  return { title: 'Templates', section: 'templates', page }
}

const NAMES_SHOWN = 4

function variablesCell (names: string[]): Html {
  if (names.length === 0) return html`<span class="none">–</span>`
  const more = names.length - NAMES_SHOWN
  return html`${listed(names.slice(0, NAMES_SHOWN))}${more > 0 && html` and ${more} more`}`
}

function emptyList (publicUrl: string): Html {
  const curl = curlFor(publicUrl, '/api/emails', {
    from: `hello@${SANDBOX_DOMAIN}`,
    to: 'ada@example.com',
    template_id: 'tpl_…',
    variables: { name: 'Ada' }
  })
  const text = 'A template has a subject, HTML and text with variables. Create one here, then send emails with its id:'
  return empty('No templates yet', text, codeBlock(curl, 'Send an email from a template'))
}
