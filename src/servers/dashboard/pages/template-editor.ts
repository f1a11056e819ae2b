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
  hiddenField,
  NO_FAULTS,
  select,
  tabs,
  type Faults
} from '../parts.ts'
import type { Visit } from '../visit.ts'
import type { RenderedDraft } from './template-draft.ts'
import { VARIABLE_TYPES, type TemplateForm, type VariableRow } from './template-form.ts'
import { mailFrame } from '../mail-frame.ts'

/** What the editor offers beside the form's fields. */
export interface EditorOptions {
  /** Templates without a layout of their own. Saving checks that the chosen one has {{{content}}}. */
  layouts: Array<{ id: string, name: string }>
  /** Domains the visitor's key may send from; null = unavailable. */
  senders: string[] | null
  preview: Html
}

export interface EditorState {
  typed: TemplateForm
  /** null = a new template. */
  stored: Pick<Template, 'id' | 'name' | 'version'> | null
  faults?: Faults
}

const EMPTY_ROWS = 3
const TEST_ADDRESS = `delivered@${SANDBOX_DOMAIN}`
const NO_ROW: VariableRow = { name: '', type: 'string', required: false, fallback: '' }

/** The page of a template: its form with a preview beside it. */
export function editorPage (
  visit: Visit,
  { typed, stored, faults = NO_FAULTS }: EditorState,
  options: EditorOptions
): Html {
  // The first button is the one that the Enter key presses.
  const body = html`${hiddenField('version', typed.version ?? '')}
<section class="card fields" aria-label="Content">${contentFields(typed, options, faults)}</section>
<section class="card"><h2>Variables</h2>${variableRows(typed, faults)}</section>
<div class="actions"><button class="primary">${stored === null ? 'Create template' : 'Save'}</button>
<a class="button" href="/dashboard/templates">Cancel</a></div>
<section class="card fields"><h2>Test</h2>${sampleFields(typed, faults)}
${stored !== null && testFields(visit, stored.id, options, faults)}</section>`
  const head = stored === null ? heading('New template', null, CRUMB) : templateHead(visit, stored, 'edit')
  const action = `/dashboard/templates${stored === null ? '' : `/${stored.id}`}`
  return html`${head}${faultBox(faults)}
<div class="beside">${form(visit, { action, class: 'template-form', guard: faults }, body)}
<section class="card preview" aria-labelledby="preview-title"><h2 id="preview-title">Preview</h2>
<div id="preview" hx-post="/dashboard/templates/preview" hx-trigger="input delay:400ms from:.template-form"
 hx-include=".template-form" hx-target="this" hx-swap="morph:innerHTML" hx-sync="this:replace">
${options.preview}</div></section></div>`
}

const CRUMB = html`<a href="/dashboard/templates">Templates</a>`

/** The head of all pages of one template. */
export function templateHead (
  visit: Visit,
  { id, name, version }: Pick<Template, 'id' | 'name' | 'version'>,
  tab: 'edit' | 'versions'
): Html {
  const remove = actionButton(visit, 'Delete', {
    action: `/dashboard/templates/${id}/delete`,
    danger: true,
    confirmLabel: 'Delete the template',
    confirm: `Emails that use “${name}” will be refused, and all its versions are deleted. This cannot be undone.`
  })
  const href = `/dashboard/templates/${id}`
  const pages = [
    ...(visit.may('POST', href) ? [{ href, text: 'Edit', isCurrent: tab === 'edit' }] : []),
    { href: `${href}/versions`, text: `Versions (${version})`, isCurrent: tab === 'versions' }
  ]
  return html`${heading(name, html`${copyable(id, 'Copy the id')}${remove}`, CRUMB)}${
    tabs('Parts of the template', pages)
  }`
}

function contentFields (typed: TemplateForm, { layouts }: EditorOptions, faults: Faults): Html {
  const known = layouts.some(({ id }) => id === typed.layout) || typed.layout === ''
    ? layouts
    : [...layouts, { id: typed.layout, name: typed.layout }]
  return html`${
    field(
      { name: 'name', label: 'Name', value: typed.name, required: true, hint: 'Recipients do not see it.' },
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
      hint: html`<code>{{name}}</code> is escaped, <code>{{{name}}}</code> is not.
<code>{{#items}}…{{/items}}</code> repeats for each item.`
    }, faults)
  }
${
    field({
      name: 'text',
      label: 'Text',
      value: typed.text,
      rows: 6,
      code: true,
      hint: 'For mail programs without HTML. If empty, Jetpost makes it from the HTML.'
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
<p class="hint">A template with <code>{{{content}}}</code>, where this one is inserted.</p>`
}

/** The declared variables and a few empty rows, so that adding one needs no script. */
function variableRows ({ rows }: TemplateForm, faults: Faults): Html {
  const lines = [...rows, ...Array.from({ length: EMPTY_ROWS }, () => NO_ROW)].map((row, i) => {
    const at = `variables.${i}`
    const of = row.name === '' ? `new variable ${i - rows.length + 1}` : row.name
    const fault = faults.of(`variables[${i}]`)
    const types = VARIABLE_TYPES.map(type => html`<option${type === row.type && html` selected`}>${type}</option>`)
    const nameMarks = html`class="mono" autocomplete="off" aria-label="Name of ${of}"${faultMarks(fault, i)}`
    const requiredMarks = html`aria-label="${of} is required"${row.required && html` checked`}`
    const fallbackMarks = html`rows="1" class="mono" aria-label="Fallback of ${of}" spellcheck="false"`
    return html`<tr><td data-name="Name"><input name="${at}.name" value="${row.name}" ${nameMarks}>
${fault !== null && html`<span class="fault" id="variable-${i}-fault">${fault}</span>`}</td>
<td data-name="Type"><select name="${at}.type" aria-label="Type of ${of}">${types}</select></td>
<td data-name="Required"><input type="checkbox" name="${at}.required" value="yes" ${requiredMarks}></td>
<td data-name="Fallback"><textarea name="${at}.fallback" ${fallbackMarks}>
${row.fallback}</textarea></td></tr>`
  })
  const heads = ['Name', 'Type', 'Required', 'Fallback'].map(name => html`<th scope="col">${name}</th>`)
  return html`<p class="hint">Emails without a required variable are refused. A fallback is used where none is given:
plain text for strings, JSON for other types. Rows without a name are ignored. Save to add more rows.</p>
<div class="table rows"><table><caption class="unseen">Declared variables</caption>
<thead><tr>${heads}</tr></thead><tbody>${lines}</tbody></table></div>`
}

function faultMarks (fault: string | null, i: number): Html | null {
  return fault === null ? null : html` aria-invalid="true" aria-describedby="variable-${i}-fault"`
}

function sampleFields ({ samples, images, rows }: TemplateForm, faults: Faults): Html {
  const hint = 'JSON for the preview and the test. Not saved with the template.'
  // The API calls declared variables and those of an email the same, and never finds faults in both at once.
  const fault = rows.some((_row, i) => faults.of(`variables[${i}]`) !== null) ? null : faults.of('variables')
  return html`${
    field({ name: 'samples', label: 'Sample variables', value: samples, rows: 8, code: true, hint }, faults)
  }
${fault !== null && html`<span class="fault">${fault}</span>`}
${checkbox('images', 'yes', 'Load remote images in the preview', images)}`
}

function testFields ({ form: given }: Visit, id: string, { senders }: EditorOptions, faults: Faults): Html {
  if (senders?.length === 0) {
    return html`<p class="hint">To send a test, add a <a href="/dashboard/domains">domain</a> that your key may send
from.</p>`
  }
  const from = given.get('from') ?? (senders === null ? '' : `hello@${senders[0]}`)
  const hint = senders === null
    ? null
    : `Your domains: ${senders.slice(0, 5).join(', ')}${senders.length > 5 ? ', …' : ''}.`
  return html`<div class="columns">${field({ name: 'from', label: 'From', value: from, hint }, faults)}
${
    field({
      name: 'to',
      label: 'To',
      value: given.get('to') ?? TEST_ADDRESS,
      hint: html`Emails to <code>${TEST_ADDRESS}</code> do not leave Jetpost.`
    }, faults)
  }</div>
<div class="actions"><button formaction="/dashboard/templates/${id}/test">Save and send a test</button></div>`
}

/** A rendered template and what is wrong with it. `id` = of the stored preview that the frame shows. */
export function previewPart (
  { subject, html: body, text, missing, faults, warnings }: RenderedDraft,
  frame: { id: string | null, images: boolean }
): Html {
  const isBlank = subject === null && body === null && text === null && faults.length === 0
  if (isBlank) {
    return html`<p class="hint">The preview appears here while you type.</p>`
  }
  const src = `/dashboard/templates/previews/${frame.id}${frame.images ? '?images=1' : ''}`
  return html`${
    faults.length > 0 && html`<div class="box warn" role="status"><ul class="plain">${faults.map(faultLine)}</ul></div>`
  }
${
    warnings.length > 0 &&
    html`<div class="box calm" id="preview-warnings"><ul class="plain">${
      warnings.map(warning => html`<li>${warning}</li>`)
    }</ul></div>`
  }
${
    missing.length > 0 &&
    html`<p class="box calm" id="preview-missing">No value for ${listed(missing)}. Shown as empty.</p>`
  }
${
    subject !== null &&
    html`<p class="subject"><span class="hint">Subject</span><br><strong id="preview-subject">${
      subject || '(empty)'
    }</strong></p>`
  }
${frame.id !== null && mailFrame(src, 'HTML as it is sent', `frame-${frame.id}-${frame.images ? 'images' : 'plain'}`)}
${text !== null && textPart(text)}`
}

function textPart (text: string): Html {
  const marks = html`class="code" id="preview-text" tabindex="0" role="region" aria-label="Text as it is sent"`
  return html`<h3>Text</h3><pre ${marks}>${text}</pre>`
}

function faultLine ({ message, source }: RenderedDraft['faults'][number]): Html {
  return html`<li>${message}${source !== null && html`<br><code>${source}</code>`}</li>`
}

/** In place of a subject that the template does not have. */
export const NO_SUBJECT = html`<span class="none">set by the email</span>`

/** Names of variables, in a sentence. */
export function listed (names: string[]): Html[] {
  return names.map((name, i) => html`${i > 0 && ', '}<code>${name}</code>`)
}
