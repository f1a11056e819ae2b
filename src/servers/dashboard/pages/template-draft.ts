import { fieldFaults, type TemplateBody } from '#streams/template/decide.ts'
import type { Template } from '#src/client/types.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { fillMail, layoutOf, readMail, renderMail, syntaxFaults } from '#src/content/mustache-mail.ts'
import { MustacheError } from '#src/content/mustache.ts'

/** What is previewed: nobody need have saved it. */
export type Draft = Pick<TemplateBody, 'subject' | 'html' | 'text' | 'variables' | 'layout'>

/** What a draft comes to. */
export interface Rendered {
  subject: string | null
  html: string | null
  text: string | null
  /** What is required, or to be put in somewhere, and was not given. */
  missing: string[]
  faults: DraftFault[]
}

/** `source` = the line of the template that is meant; null where it is no one line. */
interface DraftFault {
  message: string
  source: string | null
}

const MISSING_MAX = 100
const SOURCE_CHARS_MAX = 200

/** Renders what there is, as the API renders what is saved; parts that cannot be read are left out and named. `layout`
 *  = what `draft.layout` names, null when there is no such template. */
export function renderDraft (draft: Draft, layout: Template | null, given: Record<string, unknown>): Rendered {
  const wrong = [...fieldFaults(draft), ...syntaxFaults(draft)]
  const isSound = (part: string) => !wrong.some(({ field }) => field === part)
  const sound = {
    ...draft,
    subject: isSound('subject') ? draft.subject : null,
    html: isSound('html') ? draft.html : null,
    text: isSound('text') ? draft.text : null
  }
  const faults = wrong.map(({ field, message }) => ({ message, source: lineOf(draft, field, message) }))
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
    const mistyped = unfit.filter(({ code }) => code !== 'missing_variable').map(({ message }) => ({
      message: `Sample variables: ${message}`,
      source: null
    }))
    return { ...parts, missing: [...missing], faults: [...faults, ...mistyped] }
  } catch (error) {
    if (!(error instanceof MustacheError)) throw error
    return {
      subject: null,
      html: null,
      text: null,
      missing: [],
      faults: [...faults, { message: error.message, source: null }]
    }
  }
}

function lineOf (draft: Draft, field: string, message: string): string | null {
  const line = /\. Line (\d+): /.exec(message)?.[1]
  const source = field === 'subject' || field === 'html' || field === 'text' ? draft[field] : null
  if (line === undefined || source === null) return null
  return source.split('\n')[Number(line) - 1]?.trim().slice(0, SOURCE_CHARS_MAX) ?? null
}

/** HTML of previews, for as long as a frame needs to fetch it. */
export interface Previews {
  /** Keeps it for a session; the same HTML has the same id, so that a frame of it need not be drawn again. */
  keep(session: string, html: string): string
  /** null = there is none, no longer, or it is another session's. */
  take(session: string, id: string): string | null
}

const LIFE_MS = 10 * 60_000
const SESSION_MAX = 10
const PREVIEWS_MAX = 500
const BYTES_MAX = 64 * 1024 * 1024

interface Preview {
  session: string
  html: string
  untilMs: number
}

/** In this process alone: who comes to another node for the frame sees a sentence instead, until something is typed. */
export function createPreviews (nowMs: () => number): Previews {
  const kept = new Map<string, Preview>()
  let chars = 0

  function drop (id: string): void {
    chars -= kept.get(id)?.html.length ?? 0
    kept.delete(id)
  }

  /** What has expired, the oldest of a session that has too many, and the oldest of all while they take too much. */
  function clear (session: string): void {
    const own = [...kept].filter(([, preview]) => preview.session === session).map(([id]) => id)
    for (const id of own.slice(0, Math.max(0, own.length - SESSION_MAX))) drop(id)
    for (const [id, { untilMs }] of kept) {
      if (untilMs > nowMs() && kept.size <= PREVIEWS_MAX && 2 * chars <= BYTES_MAX) return
      drop(id)
    }
  }

  return {
    keep (session, html) {
      const id = sha256Hex(`${session} ${html}`).slice(0, 32)
      drop(id)
      kept.set(id, { session, html, untilMs: nowMs() + LIFE_MS })
      chars += html.length
      clear(session)
      return id
    },
    take (session, id) {
      const found = kept.get(id)
      return found === undefined || found.session !== session || found.untilMs <= nowMs() ? null : found.html
    }
  }
}
