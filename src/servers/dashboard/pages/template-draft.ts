import { fieldFaults, type TemplateBody } from '#streams/template/decide.ts'
import type { Template } from '#src/client/types.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { layoutOf, readMail, renderMail, syntaxFaults } from '#src/content/mustache-mail.ts'
import { MustacheError } from '#src/content/mustache.ts'
import { formText } from '../form-texts.ts'
import { fillMail, templateWarnings, unknownFaults } from '#src/content/template-variables.ts'

/** What a preview is made of, saved or not. */
export type TemplateDraft = Pick<TemplateBody, 'subject' | 'html' | 'text' | 'variables' | 'layout'>

/** A draft filled with variables. */
export interface RenderedDraft {
  subject: string | null
  html: string | null
  text: string | null
  /** Variables that are required or used, and have no value. */
  missing: string[]
  faults: DraftFault[]
  /** What looks like a mistake: sentences. */
  warnings: string[]
}

/** `source` = the template's line with the fault; null = no single line. */
interface DraftFault {
  message: string
  source: string | null
}

const MISSING_MAX = 100
const SOURCE_CHARS_MAX = 200

/** Renders a draft as the API renders a template. Parts with syntax faults are left out, with their faults. `layout` =
 *  the template that `draft.layout` names, null where it does not exist. */
export function renderDraft (
  draft: TemplateDraft,
  layout: Template | null,
  given: Record<string, unknown>
): RenderedDraft {
  const wrong = [...fieldFaults(draft), ...syntaxFaults(draft)]
  const isSound = (part: string) => !wrong.some(({ field }) => field === part)
  const sound = {
    ...draft,
    subject: isSound('subject') ? draft.subject : null,
    html: isSound('html') ? draft.html : null,
    text: isSound('text') ? draft.text : null
  }
  const faults = wrong.map(({ field, message }) => ({
    message: formText({ field, message }),
    source: lineOf(draft, field, message)
  }))
  const warnings = templateWarnings(sound, layout).map(({ message }) => message)
  try {
    const mail = readMail(sound)
    const around = layoutOf(draft.layout, layout === null ? null : readMail({ ...layout, subject: null }))
    const { variables, faults: unfit } = fillMail(mail, around, given)
    const missing = new Set(unfit.filter(({ code }) => code === 'missing_variable').map(({ name }) => name))
    const parts = renderMail(mail, around, variables, {
      onMiss: name => {
        if (missing.size < MISSING_MAX) missing.add(name)
      }
    })
    const misfits = [...unfit.filter(({ code }) => code !== 'missing_variable'), ...unknownFaults(mail, around, given)]
    const misgiven = misfits.map(({ name, message }) => ({
      message: `Sample variables: ${formText({ field: `variables.${name}`, message })}`,
      source: null
    }))
    return { ...parts, missing: [...missing], faults: [...faults, ...misgiven], warnings }
  } catch (error) {
    if (!(error instanceof MustacheError)) throw error
    return {
      subject: null,
      html: null,
      text: null,
      missing: [],
      faults: [...faults, { message: error.message, source: null }],
      warnings
    }
  }
}

function lineOf (draft: TemplateDraft, field: string, message: string): string | null {
  const line = /\. Line (\d+): /.exec(message)?.[1]
  const source = field === 'subject' || field === 'html' || field === 'text' ? draft[field] : null
  if (line === undefined || source === null) return null
  return source.split('\n')[Number(line) - 1]?.trim().slice(0, SOURCE_CHARS_MAX) ?? null
}

/** HTML of previews, for as long as frames need it. */
export interface Previews {
  /** Keeps it for a session. The same HTML has the same id, so that its frame need not load again. */
  keep(session: string, html: string): string
  /** null = unknown, expired, or of another session. */
  take(session: string, id: string): string | null
}

const LIFE_MS = 10 * 60_000
const SESSION_MAX = 10
const PREVIEWS_MAX = 500
const BYTES_MAX = 64 * 1024 * 1024

interface StoredPreview {
  session: string
  html: string
  untilMs: number
}

/** In this process alone: from another node the frame gets a sentence instead, until the template changes. */
export function createPreviews (nowMs: () => number): Previews {
  const previews = new Map<string, StoredPreview>()
  let chars = 0

  function drop (id: string): void {
    chars -= previews.get(id)?.html.length ?? 0
    previews.delete(id)
  }

  /** Drops the expired, the oldest of a session that has too many, and the oldest of all while they take too much. */
  function clear (session: string): void {
    const own = [...previews].filter(([, preview]) => preview.session === session).map(([id]) => id)
    for (const id of own.slice(0, Math.max(0, own.length - SESSION_MAX))) drop(id)
    for (const [id, { untilMs }] of previews) {
      if (untilMs > nowMs() && previews.size <= PREVIEWS_MAX && 2 * chars <= BYTES_MAX) return
      drop(id)
    }
  }

  return {
    keep (session, html) {
      const id = sha256Hex(`${session} ${html}`).slice(0, 32)
      drop(id)
      previews.set(id, { session, html, untilMs: nowMs() + LIFE_MS })
      chars += html.length
      clear(session)
      return id
    },
    take (session, id) {
      const found = previews.get(id)
      return found === undefined || found.session !== session || found.untilMs <= nowMs() ? null : found.html
    }
  }
}
