import { type Html, html } from '#src/base/html.ts'
import type { Template } from '#src/client/types.ts'
import { actionButton, badge, codeBlock, cursorOf, heading, pager, table, time } from '../parts.ts'
import { PageNotFound, type PageResult, type Pages, type Visit } from '../visit.ts'
import { NO_SUBJECT, templateHead } from './template-editor.ts'

/** A line of a diff: `-` = only in the first text, `+` = only in the second, ` ` = in both. */
interface DiffLine {
  sign: ' ' | '-' | '+'
  text: string
}

/** Pairs of lines that are compared; beyond that, all lines of one text come before those of the other. */
const PAIRS_MAX = 1_000_000

/** The diff of two texts by their longest common subsequence of lines. */
export function diffLines (before: string, after: string): DiffLine[] {
  const a = before === '' ? [] : before.split('\n')
  const b = after === '' ? [] : after.split('\n')
  const most = Math.min(a.length, b.length)
  let head = 0
  while (head < most && a[head] === b[head]) head++
  let tail = 0
  while (tail < most - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++
  return [
    ...a.slice(0, head).map(same),
    ...between(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same)
  ]
}

const same = (text: string): DiffLine => ({ sign: ' ', text })
const gone = (text: string): DiffLine => ({ sign: '-', text })
const added = (text: string): DiffLine => ({ sign: '+', text })

function between (a: string[], b: string[]): DiffLine[] {
  if (a.length * b.length > PAIRS_MAX || a.length === 0 || b.length === 0) return [...a.map(gone), ...b.map(added)]
  const width = b.length + 1
  // lengths[i * width + j] = lines in common from line i of a and line j of b on.
  const lengths = new Uint16Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j]
        ? lengths[(i + 1) * width + j + 1]! + 1
        : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!)
    }
  }
  const lines: DiffLine[] = []
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(same(a[i]!))
      i++
      j++
    } else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)) {
      lines.push(gone(a[i++]!))
    } else lines.push(added(b[j++]!))
  }
  return lines
}

/** The versions of a template, the differences between them, and restoring one. */
export function versionPages (pages: Pages, preview: (visit: Visit, stored: Template) => Promise<Html>): void {
  pages.get('/templates/:id/versions', 'templates:read', async visit => {
    const id = visit.params.id!
    const query = { limit: 25, ...cursorOf(visit) }
    const [newest, { data, next_cursor: next }] = await Promise.all([
      visit.api.templates.get(id),
      visit.api.templates.versionsPage(id, query)
    ])
    const link = (version: number) =>
      html`<a href="/dashboard/templates/${id}/versions/${version}">Version ${version}</a>`
    const page = html`${templateHead(visit, newest, 'versions')}
<p class="hint">Versions never change. Emails use the newest one when they are accepted.</p>
${
      table('Versions, newest first', [
        {
          name: 'Version',
          cell: ({ version }) => html`${link(version)} ${version === newest.version && badge('newest', 'good')}`
        },
        { name: 'Name', kind: 'late', cell: ({ name }) => name },
        {
          name: 'Subject',
          kind: 'wide',
          cell: ({ subject }) => subject ?? NO_SUBJECT
        },
        { name: 'Saved', cell: ({ created_at: at }) => time(at, visit.nowMs) }
      ], data)
    }${pager(visit, next)}`
    return { title: `Versions of ${newest.name}`, section: 'templates', page }
  })

  pages.get('/templates/:id/versions/:version', 'templates:read', async visit => {
    const [newest, shown] = await Promise.all([
      visit.api.templates.get(visit.params.id!),
      versionOf(visit, visit.params.version!)
    ])
    return await versionPage(visit, newest, shown, await preview(visit, shown))
  })

  pages.post('/templates/:id/versions/:version/restore', 'templates:write', async visit => {
    const { id, version, name, subject, html: body, text, variables, layout_id: layout } = await versionOf(
      visit,
      visit.params.version!
    )
    const made = await visit.api.templates.update(id, { name, subject, html: body, text, variables, layout_id: layout })
    return { to: `/dashboard/templates/${id}`, notice: `Version ${version} restored as version ${made.version}.` }
  })
}

async function versionOf ({ api, params }: Visit, version: string): Promise<Template> {
  if (!/^[1-9]\d{0,8}$/.test(version)) throw new PageNotFound('This version does not exist.')
  return await api.templates.get(params.id!, { version: Number(version) })
}

async function versionPage (visit: Visit, newest: Template, shown: Template, preview: Html): Promise<PageResult> {
  const { id, version, name } = shown
  const to = `/dashboard/templates/${id}`
  const isNewest = version === newest.version
  const other = isNewest ? (version > 1 ? await versionOf(visit, String(version - 1)) : null) : newest
  const [before, after] = other !== null && other.version < version ? [other, shown] : [shown, other]
  const restore = actionButton(visit, 'Restore', {
    action: `${to}/versions/${version}/restore`,
    confirmLabel: 'Restore',
    confirm: `Version ${version} is saved again as version ${newest.version + 1}. No version is lost.`
  })
  const crumbs = html`<a href="/dashboard/templates">Templates</a> / <a href="${to}">${newest.name}</a> /
<a href="${to}/versions">Versions</a>`
  const sources = partsOf(shown).filter(([, text]) => text !== '').map(([part, text]) =>
    html`<h3>${part}</h3>${codeBlock(text, `${part} of version ${version}`)}`
  )
  const page = html`${heading(`Version ${version}`, isNewest ? badge('newest', 'good') : restore, crumbs)}
<p class="hint">${name}, saved ${time(shown.updated_at, visit.nowMs)}.</p>
${
    after !== null &&
    html`<section class="card sources"><h2>From version ${before.version} to version ${after.version}</h2>${
      differences(before, after)
    }</section>`
  }
<section class="card preview"><h2>Preview</h2><p class="hint">With sample variables.</p>${preview}</section>
<section class="card sources"><h2>Source</h2>${sources}</section>`
  return { title: `Version ${version} of ${name}`, section: 'templates', page }
}

function partsOf (
  { name, subject, html: body, text, variables, layout_id: layout }: Template
): Array<[part: string, text: string]> {
  const declared = variables.map(variable => JSON.stringify(variable)).join('\n')
  return [
    ['Name', name],
    ['Subject', subject ?? ''],
    ['HTML', body ?? ''],
    ['Text', text ?? ''],
    ['Variables', declared],
    ['Layout', layout ?? '']
  ]
}

function differences (before: Template, after: Template): Html {
  const later = new Map(partsOf(after))
  const changed = partsOf(before).filter(([part, text]) => later.get(part) !== text)
  if (changed.length === 0) return html`<p>No differences.</p>`
  return html`${
    changed.map(([part, text]) => html`<h3>${part}</h3>${diffBlock(part, diffLines(text, later.get(part)!))}`)
  }`
}

/** Unchanged lines shown around a change. */
const AROUND = 3

function diffBlock (part: string, lines: DiffLine[]): Html {
  const near = lines.map((_line, i) =>
    lines.slice(Math.max(0, i - AROUND), i + AROUND + 1).some(({ sign }) => sign !== ' ')
  )
  const rows = lines.flatMap(({ sign, text }, i) => {
    if (near[i] === true) return [lineOf(sign, text)]
    return i === 0 || near[i - 1] === true ? [html`<span class="none">  …</span>\n`] : []
  })
  const marks = html`class="diff" tabindex="0" role="region" aria-label="Differences in ${part}"`
  return html`<div class="code"><pre ${marks}><code>${rows}</code></pre></div>`
}

function lineOf (sign: DiffLine['sign'], text: string): Html {
  const line = `${sign === '-' ? '−' : sign} ${text}`
  if (sign === ' ') return html`${line}\n`
  return sign === '-' ? html`<del>${line}\n</del>` : html`<ins>${line}\n</ins>`
}
