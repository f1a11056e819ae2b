import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import type { Template } from '#src/client/types.ts'
import { html, type Html } from '#src/base/html.ts'
import {
  actionButton,
  checkbox,
  copyable,
  faultBox,
  field,
  form,
  heading,
  NO_FAULTS,
  select,
  tabs,
  type Faults
} from '../parts.ts'
import type { Visit } from '../visit.ts'
import type { RenderedDraft } from './template-draft.ts'
import { VARIABLE_TYPES, type TemplateForm, type VariableRow } from './template-form.ts'
import { mailFrame } from '../mail-frame.ts'

/** What the form offers beside what is typed. */
export interface EditorOptions {
  /** Templates that have no layout themselves: whether they hold {{{content}}} is seen when it is saved. */
  layouts: Array<{ id: string, name: string }>
  /** Domains the visitor's key may send from; null = nobody can say just now. */
  senders: string[] | null
  preview: Html
}

export interface EditorState {
  typed: TemplateForm
  /** null = it is not there yet. */
  stored: Pick<Template, 'id' | 'name' | 'version'> | null
  faults?: Faults
}

const EMPTY_ROWS = 3
const TEST_ADDRESS = `delivered@${SANDBOX_DOMAIN}`
const NO_ROW: VariableRow = { name: '', type: 'string', required: false, fallback: '' }

/** The page on which a template is written, what becomes of it beside it. */
export function editorPage (
  visit: Visit,
  { typed, stored, faults = NO_FAULTS }: EditorState,
  aids: EditorOptions
): Html {
  // The first button is the one that the Enter key presses.
  const body = html`<input type="hidden" name="version" value="${typed.version ?? ''}">
<section class="card fields" aria-label="Content">${contentFields(typed, aids, faults)}</section>
<section class="card"><h2>Variables</h2>${variableRows(typed, faults)}</section>
<div class="actions"><button class="primary">${stored === null ? 'Create the template' : 'Save'}</button>
<a class="button" href="/dashboard/templates">Cancel</a></div>
<section class="card fields"><h2>Try it</h2>${sampleFields(typed, faults)}${
    stored !== null && testFields(visit, stored.id, aids, faults)
  }</section>`
  return html`${stored === null ? heading('New template', null, CRUMB) : templateHead(visit, stored, 'edit')}${
    faultBox(faults)
  }
<div class="beside">${
    form(visit, {
      action: `/dashboard/templates${stored === null ? '' : `/${stored.id}`}`,
      class: 'template-form',
      guard: faults
    }, body)
  }
<section class="card preview" aria-labelledby="preview-title"><h2 id="preview-title">Preview</h2>
<div id="preview" hx-post="/dashboard/templates/preview" hx-trigger="input delay:400ms from:.template-form" hx-include=".template-form" hx-target="this" hx-swap="morph:innerHTML"
 hx-sync="this:replace">${aids.preview}</div></section></div>`
}

const CRUMB = html`<a href="/dashboard/templates">Templates</a>`

/** What stands above all pages of one template. */
export function templateHead (
  visit: Visit,
  { id, name, version }: Pick<Template, 'id' | 'name' | 'version'>,
  tab: 'edit' | 'versions'
): Html {
  const remove = actionButton(visit, 'Delete', {
    action: `/dashboard/templates/${id}/delete`,
    danger: true,
    confirmLabel: 'Delete the template',
    confirm: `Mail that names the template “${name}” is refused from then on. Its versions are gone for good.`
  })
  const href = `/dashboard/templates/${id}`
  const views = [{ href, text: 'Edit', isCurrent: tab === 'edit' }, {
    href: `${href}/versions`,
    text: `Versions (${version})`,
    isCurrent: tab === 'versions'
  }]
  return html`${heading(name, html`${copyable(id, 'Copy the id')}${remove}`, CRUMB)}${
    tabs('Parts of the template', views)
  }`
}

function contentFields (typed: TemplateForm, { layouts }: EditorOptions, faults: Faults): Html {
  const known = layouts.some(({ id }) => id === typed.layout) || typed.layout === ''
    ? layouts
    : [...layouts, { id: typed.layout, name: typed.layout }]
  return html`${
    field(
      { name: 'name', label: 'Name', value: typed.name, required: true, hint: 'For you: recipients never see it.' },
      faults
    )
  }
${field({ name: 'subject', label: 'Subject', value: typed.subject, placeholder: 'Your order {{order}}' }, faults)}
${
    field({
      name: 'html',
      label: 'HTML',
      value: typed.html,
      rows: 16,
      code: true,
      placeholder: '<p>Hello {{name}},</p>',
      hint: html`<code>{{name}}</code> is put in escaped,
<code>{{{name}}}</code> as it is; <code>{{#items}}…{{/items}}</code> once for each.`
    }, faults)
  }
${
    field({
      name: 'text',
      label: 'Text',
      value: typed.text,
      rows: 6,
      code: true,
      hint: 'For readers without HTML. Left empty, it is made from the HTML when mail is sent.'
    }, faults)
  }
${
    select(
      'layout_id',
      'Layout',
      [['', 'None'], ...known.map(({ id, name }): [string, string] => [id, name])],
      typed.layout
    )
  }
${faults.of('layout_id') !== null && html`<span class="fault">${faults.of('layout_id')}</span>`}
<p class="hint">A template whose bodies hold <code>{{{content}}}</code>: this one is put in there.</p>`
}

/** Declared ones and a few empty rows, so that no script is needed to add some. */
function variableRows ({ rows }: TemplateForm, faults: Faults): Html {
  const lines = [...rows, ...Array.from({ length: EMPTY_ROWS }, () => NO_ROW)].map((row, i) => {
    const at = `variables.${i}`
    const of = row.name === '' ? `new variable ${i - rows.length + 1}` : row.name
    const fault = faults.of(`variables[${i}]`)
    const types = VARIABLE_TYPES.map(type => html`<option${type === row.type && html` selected`}>${type}</option>`)
    return html`<tr><td data-name="Name"><input name="${at}.name" value="${row.name}" class="mono" autocomplete="off" aria-label="Name of ${of}"${
      faultMarks(fault, i)
    }>
${fault !== null && html`<span class="fault" id="variable-${i}-fault">${fault}</span>`}</td>
<td data-name="Type"><select name="${at}.type" aria-label="Type of ${of}">${types}</select></td>
<td data-name="Required"><input type="checkbox" name="${at}.required" value="yes" aria-label="${of} is required"${
      row.required && html` checked`
    }></td>
<td data-name="Fallback"><textarea name="${at}.fallback" rows="1" class="mono" aria-label="Fallback of ${of}" spellcheck="false">
${row.fallback}</textarea></td></tr>`
  })
  return html`<p class="hint">Mail that lacks a required one is refused. A fallback stands in where none is given: text as it is, all else as JSON.
A row without a name is left out; save to get more.</p>
<div class="table rows"><table><caption class="unseen">Declared variables</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Type</th><th scope="col">Required</th><th scope="col">Fallback</th></tr></thead><tbody>${lines}</tbody></table></div>`
}

function faultMarks (fault: string | null, i: number): Html | null {
  return fault === null ? null : html` aria-invalid="true" aria-describedby="variable-${i}-fault"`
}

function sampleFields ({ samples, images, rows }: TemplateForm, faults: Faults): Html {
  const hint = 'JSON. For the preview and the test, not part of the template.'
  // Declared variables and those that mail is sent with have the same name in the API, and never faults at once.
  const fault = rows.some((_row, i) => faults.of(`variables[${i}]`) !== null) ? null : faults.of('variables')
  return html`${
    field({ name: 'samples', label: 'Sample variables', value: samples, rows: 8, code: true, hint }, faults)
  }
${fault !== null && html`<span class="fault">${fault}</span>`}
${checkbox('images', 'yes', 'Fetch pictures from elsewhere in the preview', images)}`
}

function testFields ({ form: given }: Visit, id: string, { senders }: EditorOptions, faults: Faults): Html {
  if (senders?.length === 0) {
    return html`<p class="hint">To send a test, you need a domain that your key may send from: see <a href="/dashboard/domains">Domains</a>.</p>`
  }
  const from = given.get('from') ?? (senders === null ? '' : `hello@${senders[0]}`)
  const hint = senders === null ? null : `On ${senders.slice(0, 5).join(', ')}${senders.length > 5 ? ', …' : ''}.`
  return html`<div class="columns">${field({ name: 'from', label: 'From', value: from, hint }, faults)}
${
    field({
      name: 'to',
      label: 'To',
      value: given.get('to') ?? TEST_ADDRESS,
      hint: html`Mail to <code>${TEST_ADDRESS}</code> never leaves Jetpost.`
    }, faults)
  }</div>
<div class="actions"><button formaction="/dashboard/templates/${id}/test">Save and send a test</button></div>`
}

/** What becomes of a template, and what is wrong with it. `id` = where a frame finds the HTML. */
export function previewPart (
  { subject, html: body, text, missing, faults }: RenderedDraft,
  frame: { id: string | null, images: boolean }
): Html {
  const isBlank = subject === null && body === null && text === null && faults.length === 0
  if (isBlank) {
    return html`<p class="hint">Write a subject and a body: what becomes of them is shown here while you type.</p>`
  }
  const src = `/dashboard/templates/previews/${frame.id}${frame.images ? '?images=1' : ''}`
  return html`${
    faults.length > 0 && html`<div class="box warn" role="status"><ul class="plain">${faults.map(faultLine)}</ul></div>`
  }
${
    missing.length > 0 &&
    html`<p class="box calm" id="preview-missing">Not given: ${listed(missing)}. Left empty here.</p>`
  }
${
    subject !== null &&
    html`<p class="subject"><span class="hint">Subject</span><br><strong id="preview-subject">${
      subject || '(empty)'
    }</strong></p>`
  }
${frame.id !== null && mailFrame(src, 'HTML as it is sent', `frame-${frame.id}-${frame.images ? 'images' : 'plain'}`)}
${
    text !== null &&
    html`<h3>Text</h3><pre class="code" id="preview-text" tabindex="0" role="region" aria-label="Text as it is sent">${text}</pre>`
  }`
}

function faultLine ({ message, source }: RenderedDraft['faults'][number]): Html {
  return html`<li>${message}${source !== null && html`<br><code>${source}</code>`}</li>`
}

/** Names of variables, in a sentence. */
export function listed (names: string[]): Html[] {
  return names.map((name, i) => html`${i > 0 && ', '}<code>${name}</code>`)
}
