import { declaredNames } from '#projections/templates/queries.ts'
import { templates } from '#projections/templates/project.ts'
import { isVerifiedEnough } from '#streams/domain/decide.ts'
import { maySendFrom, SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { html, type Html } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { JetpostError } from '#src/client/client.ts'
import type { Template } from '#src/client/types.ts'
import { answerFrom } from '#src/postgres/reads.ts'
import { curlFor } from '../curl.ts'
import { codeBlock, cursorOf, empty, heading, NO_FAULTS, pager, table, time, postFaultsIn } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'
import { framed } from '../mail-frame.ts'
import { ifAvailable } from '../if-available.ts'
import { createPreviews, renderDraft, type TemplateDraft, type Previews } from './template-draft.ts'
import { editorPage, listed, previewPart, type EditorOptions, type EditorState } from './template-editor.ts'
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

/** What somebody typed as sample variables is there again when they come back, while this process runs. */
const SAMPLES_MAX = 500
const SAMPLE_CHARS_MAX = 20_000
const LAYOUTS_MAX = 100
const DOMAINS_MAX = 100

/** Templates: the list, writing one with its preview beside it, sending a test. */
export function templatesPages (pages: Pages, context: DashboardContext): void {
  const { services } = context
  const previews = createPreviews(() => services.appenders.clock.nowMs())
  const samples = new Memory<string>(SAMPLES_MAX)

  pages.get('/templates', async visit => await listPage(visit, context))
  pages.get('/templates/new', async visit => await editor(visit, { typed: NEW_TEMPLATE, stored: null }))

  pages.post('/templates', async visit => {
    const typed = templateFormIn(visit.form)
    try {
      const { id } = await visit.api.templates.create(requestOf(typed))
      remember(visit, id, typed)
      return { to: `/dashboard/templates/${id}`, notice: 'Created. Mail can name it by its id.' }
    } catch (error) {
      return await editor(visit, { typed, stored: null, faults: postFaultsIn(error) })
    }
  })

  pages.get('/templates/:id', async visit => {
    const stored = await visit.api.templates.get(visit.params.id!)
    return await editor(visit, {
      typed: { ...templateFormOf(stored), samples: samples.get(sampleKey(visit, stored.id)) ?? sampleJson(stored) },
      stored
    })
  })

  pages.post('/templates/:id', async visit =>
    await saved(visit, async (_typed, before, after) => ({
      to: `/dashboard/templates/${after.id}`,
      notice: before?.version === after.version
        ? 'Nothing was another than before: no new version.'
        : `Saved as version ${after.version}.`
    })))

  pages.post('/templates/:id/test', async visit =>
    await saved(visit, async (typed, _before, stored) => {
      const variables = samplesOf(typed)
      const test = { from: visit.form.get('from') ?? '', to: visit.form.get('to') ?? '' }
      const again = async (faults: EditorState['faults']) =>
        await editor(visit, { typed: { ...typed, version: stored.version }, stored, faults })
      if (typeof variables === 'string') return await again(faultOf('samples', variables))
      try {
        const { id } = await visit.api.emails.send({
          ...test,
          template_id: stored.id,
          variables,
          ...(stored.subject === null ? { subject: `Test of ${stored.name}` } : {})
        })
        return {
          to: `/dashboard/emails/${id}`,
          notice: `Test of “${stored.name.slice(0, 80)}”, version ${stored.version}, accepted.`
        }
      } catch (error) {
        return await again(postFaultsIn(error))
      }
    }))

  pages.post('/templates/:id/delete', async visit => {
    await visit.api.templates.delete(visit.params.id!)
    return { to: '/dashboard/templates', notice: 'The template is deleted.' }
  })

  pages.post('/templates/preview', async visit => {
    const part = await previewOf(visit, previews, templateFormIn(visit.form))
    return { send: reply => reply.type('text/html; charset=utf-8').send(part.text) }
  })

  pages.get('/templates/previews/:preview', async visit => {
    const body = previews.take(visit.session.id, visit.params.preview!)
    if (body === null) {
      return framed('<p>This preview is over. It is made anew when you type.</p>', { images: false, status: 404 })
    }
    return framed(body, { images: visit.query.has('images') })
  })

  versionPages(
    pages,
    async (visit, stored) =>
      await previewOf(visit, previews, { ...templateFormOf(stored), samples: sampleJson(stored) })
  )

  /** Saves what was typed, then goes on; else shows what is wrong with it. `before` = null while nobody knows what is
   *  stored: then it is the whole of the next version, and the one before is kept like every other. */
  async function saved (
    visit: Visit,
    goOn: (typed: TemplateForm, before: Template | null, after: Template) => Promise<PageResult>
  ): Promise<PageResult> {
    const typed = templateFormIn(visit.form)
    const id = visit.params.id!
    const before = await ifAvailable(visit.api.templates.get(id))
    remember(visit, id, typed)
    if (before !== null && typed.version !== before.version) {
      const message =
        `Version ${before.version} was saved after you opened this page. Saving again puts yours over it, as the next version.`
      return await editor(visit, {
        typed: { ...typed, version: before.version },
        stored: before,
        faults: faultOf('version', message)
      })
    }
    let after: Template
    try {
      after = await visit.api.templates.update(id, before === null ? requestOf(typed) : changesOf(typed, before))
    } catch (error) {
      return await editor(visit, {
        typed,
        stored: before ?? { id, name: typed.name, version: typed.version ?? 1 },
        faults: postFaultsIn(error)
      })
    }
    return await goOn(typed, before, after)
  }

  function remember (visit: Visit, id: string, { samples: text }: TemplateForm): void {
    if (text.length <= SAMPLE_CHARS_MAX) samples.set(sampleKey(visit, id), text)
  }

  async function editor (visit: Visit, editing: EditorState): Promise<PageResult> {
    const { typed, stored, faults = NO_FAULTS } = editing
    const preview = await ifAvailable(previewOf(visit, previews, typed)) ??
      html`<p class="hint">The layout cannot be read just now: there is a preview as soon as it can.</p>`
    const aids = await editorOptions(visit, context, stored?.id ?? null, preview)
    const title = stored?.name ?? 'New template'
    return {
      title,
      section: 'templates',
      page: editorPage(visit, editing, aids),
      status: faults.summary === null ? 200 : 422
    }
  }
}

const sampleKey = ({ session }: Visit, template: string): string => `${session.id} ${template}`

/** What cannot be read just now is left out: what somebody has typed is more than that. */
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
  const usable =
    domains?.data.filter(domain => isVerifiedEnough(domain, services.settings.requireVerifiedDomains)).map(({ name }) =>
      name
    ) ?? null
  return {
    layouts,
    preview,
    senders: usable && [...usable, SANDBOX_DOMAIN].filter(name => maySendFrom(visit.key, name, visit.account.id))
  }
}

async function previewOf (visit: Visit, previews: Previews, typed: TemplateForm): Promise<Html> {
  const given = samplesOf(typed)
  const { subject, html: body, text, rows, layout } = typed
  const draft: TemplateDraft = {
    subject: subject || null,
    html: body || null,
    text: text || null,
    variables: readableVariables(rows),
    layout: layout || null
  }
  const rendered = renderDraft(
    draft,
    layout === '' ? null : await layoutNamed(visit, layout),
    typeof given === 'string' ? {} : given
  )
  const faults = typeof given === 'string' ? [...rendered.faults, { message: given, source: null }] : rendered.faults
  return previewPart({ ...rendered, faults }, {
    id: rendered.html === null ? null : previews.keep(visit.session.id, rendered.html),
    images: typed.images
  })
}

async function layoutNamed ({ api }: Visit, id: string): Promise<Template | null> {
  try {
    return await api.templates.get(id)
  } catch (error) {
    if (error instanceof JetpostError && error.status === 404) return null
    throw error
  }
}

async function listPage (visit: Visit, { reads, publicUrl }: DashboardContext): Promise<PageResult> {
  const { data, next_cursor: next } = await visit.api.templates.page({ limit: 25, ...cursorOf(visit) })
  const names = await answerFrom(
    reads,
    templates,
    declaredNames({ account: visit.account.id, ids: data.map(({ id }) => id) })
  )
  const page = html`${
    heading('Templates', html`<a class="button primary" href="/dashboard/templates/new">New template</a>`)
  }
${
    data.length === 0 ? nothingYet(publicUrl) : table('Templates, newest first', [
      { name: 'Name', cell: ({ id, name }) => html`<a href="/dashboard/templates/${id}">${name}</a>` },
      { name: 'Subject', cell: ({ subject }) => subject ?? html`<span class="none">of the mail</span>` },
      { name: 'Variables', kind: 'late', cell: ({ id }) => variablesCell(names.get(id) ?? []) },
      { name: 'Version', kind: 'num', cell: ({ version }) => version },
      { name: 'Changed', cell: ({ updated_at: at }) => time(at, visit.nowMs) }
    ], data)
  }
${pager(visit, next)}`
  return { title: 'Templates', section: 'templates', page }
}

const NAMES_SHOWN = 4

function variablesCell (names: string[]): Html {
  if (names.length === 0) return html`<span class="none">–</span>`
  return html`${listed(names.slice(0, NAMES_SHOWN))}${
    names.length > NAMES_SHOWN && html` and ${names.length - NAMES_SHOWN} more`
  }`
}

function nothingYet (publicUrl: string): Html {
  const curl = curlFor(publicUrl, '/api/emails', {
    from: `hello@${SANDBOX_DOMAIN}`,
    to: 'ada@example.com',
    template_id: 'tpl_…',
    variables: { name: 'Ada' }
  })
  const text =
    'Subject, HTML and text with places for what differs from mail to mail. Write one here, then name it when you send:'
  return empty('No templates yet', text, codeBlock(curl, 'A request that sends from a template'))
}
