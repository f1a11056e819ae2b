import { Refusal } from '#streams/define.ts'
import type { VariableFault } from '#streams/template/decide.ts'
import type { TemplateVersioned } from '#streams/template/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { layoutOf, readMail, renderMail, type MailTemplate } from '#src/content/mustache-mail.ts'
import { MustacheError, weightOf, type RenderBudget } from '#src/content/mustache.ts'
import { fillMail, unknownFaults, watchMisses } from '#src/content/template-variables.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import { untilAnswered } from '#src/nats/retry-on-disconnect.ts'

/** What a template makes of variables. */
export interface RenderedMail {
  version: number
  /** null where the template has none, or where nothing is left of it. */
  subject: string | null
  /** null where the template has none. */
  html: string | null
  text: string | null
}

/** Templates as the log has them now, compiled and kept. */
export interface TemplateCache {
  /** Renders the newest version, in its layout. Refuses `template_not_found`, `invalid_variables` (all of them named)
   *  and `template_failed`. `budget` is what all the emails of one request may take together; left out, there is one.
   *  Throws when NATS does not answer. */
  render(account: string, order: RenderOrder, budget?: RenderBudget): Promise<RenderedMail | Refusal>
}

/** Which template, and with what. `ownSubject` = the email has a subject of its own, so the template's is not rendered.
 */
export interface RenderOrder {
  id: string
  variables: Record<string, unknown>
  ownSubject?: boolean
}

/** Variables that are not as the template needs them: all of them. */
export class InvalidVariables extends Refusal {
  readonly faults: VariableFault[]
  constructor (faults: VariableFault[]) {
    super('invalid_variables', faults.map(fault => fault.message).join(' '))
    this.faults = faults
  }
}

export function openTemplateCache (bus: Bus): TemplateCache {
  const newest = shareReads(async subject =>
    await untilAnswered(() => getFact(bus, 'CONTROL', { last_by_subj: subject }, 'leader'))
  )
  const compiled = createCache()

  /** The newest version and what was made of it; null when the account has no such template. */
  async function take (
    account: string,
    id: string
  ): Promise<{ data: TemplateVersioned['data'], mail: MailTemplate } | null> {
    const fact = isTemplateId(id) ? (await newest(subjects.template(account, id)))?.fact : undefined
    return fact?.type === 'template.versioned' ? { data: fact.data, mail: compiled(fact.data) } : null
  }

  async function render (
    account: string,
    { id, variables: given, ownSubject = false }: RenderOrder,
    budget?: RenderBudget
  ): Promise<RenderedMail | Refusal> {
    const own = await take(account, id)
    if (own === null) return new Refusal('template_not_found', 'template_id must be the id of a template.')
    const { version, layout: named } = own.data
    const layout = layoutOf(named, named === null ? null : (await take(account, named))?.mail ?? null)
    const { variables, faults: unfit } = fillMail(own.mail, layout, given)
    const unknown = unknownFaults(own.mail, layout, given)
    const watch = watchMisses(own.mail, layout, given)
    const needed = ownSubject ? { ...own.mail, subject: null } : own.mail
    const { subject, html, text } = renderMail(needed, layout, variables, { ...watch, budget })
    const faults = [...unfit, ...watch.faults(), ...unknown]
    if (faults.length > 0) return new InvalidVariables(faults)
    return { version, subject: subject === '' ? null : subject, html, text }
  }

  return {
    async render (account, order, budget) {
      try {
        return await render(account, order, budget)
      } catch (error) {
        if (error instanceof MustacheError) {
          return new Refusal('template_failed', `template_id must name a template that renders. ${error.message}`)
        }
        throw error
      }
    }
  }
}

/** Anything else would be another subject, or many. */
export function isTemplateId (id: string): boolean {
  return /^tpl_[0-9a-z]{1,64}$/.test(id)
}

/** One read of a subject at a time; who comes meanwhile shares the next, so that no answer is older than its question.
 */
function shareReads<T> (read: (subject: string) => Promise<T>): (subject: string) => Promise<T> {
  const running = new Map<string, Promise<T>>()
  const next = new Map<string, Promise<T>>()

  function begin (subject: string): Promise<T> {
    next.delete(subject)
    const reading = read(subject)
    running.set(subject, reading)
    const end = () => void (running.get(subject) === reading && running.delete(subject))
    reading.then(end, end)
    return reading
  }

  return subject => {
    const before = running.get(subject)
    if (before === undefined) return begin(subject)
    const shared = next.get(subject) ?? before.then(() => begin(subject), () => begin(subject))
    next.set(subject, shared)
    return shared
  }
}

/** Memory for compiled versions. */
const CACHE_BYTES_MAX = 64 * 1024 * 1024

/** Compiles versions, and keeps those used last: a version never changes. Throws MustacheError. */
function createCache (): (version: TemplateVersioned['data']) => MailTemplate {
  const kept = new Map<string, { mail: MailTemplate, bytes: number }>()
  let bytes = 0
  return version => {
    const name = `${version.template} ${version.version}`
    const found = kept.get(name)
    const entry = found ?? compile(version)
    if (found === undefined) bytes += entry.bytes
    // Last in the map is last used.
    kept.delete(name)
    kept.set(name, entry)
    for (const [oldest, { bytes: freed }] of kept) {
      if (bytes <= CACHE_BYTES_MAX) break
      kept.delete(oldest)
      bytes -= freed
    }
    return entry.mail
  }
}

/** What an entry takes beside what is in it. */
const ENTRY_BYTES = 1000

/** A version, read, and about how much memory that takes; not less than it does. */
export function compile (version: TemplateVersioned['data']): { mail: MailTemplate, bytes: number } {
  const mail = readMail(version)
  const { subject, html, text } = mail
  const nodes = [subject, html, text].reduce((sum, part) => sum + weightOf(part ?? []), 0)
  const chars = [version.subject, version.html, version.text].reduce((sum, source) => sum + (source?.length ?? 0), 0)
  // A character of a fallback may be a list of its own.
  return { mail, bytes: ENTRY_BYTES + nodes + 2 * chars + 16 * JSON.stringify(mail.variables).length }
}
