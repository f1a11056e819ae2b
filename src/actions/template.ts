import { isDeepStrictEqual } from 'node:util'
import { Refusal, type FieldFault } from '#streams/define.ts'
import {
  countFault,
  emptyFaults,
  fieldFaults,
  InvalidTemplate,
  versionFault,
  type TemplateBody
} from '#streams/template/decide.ts'
import { TemplateDeleted, TemplateVersioned } from '#streams/template/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { timestamp } from '#src/base/clock.ts'
import { idTimeMs, newId } from '#src/base/id.ts'
import { mayBeLayout, syntaxFaults } from '#src/content/mustache-mail.ts'
import { templateWarnings, type TemplateWarning } from '#src/content/template-variables.ts'
import { getFact } from '#src/nats/get.ts'
import type { Asker, Services } from './services.ts'
import { askedBy, stamp } from './fact-log.ts'
import { retryOnConflict } from './retry-on-conflict.ts'
import { isTemplateId } from './template-cache.ts'

/** A version of a template. */
export interface StoredTemplate extends TemplateBody {
  id: string
  version: number
  createdAt: string
  /** When this version was made. */
  updatedAt: string
}

/** A version that was just saved, and what looks like a mistake in it. */
export interface SavedTemplate extends StoredTemplate {
  warnings: TemplateWarning[]
}

type WritingServices = Pick<Services, 'factLog'>

/** Whether some template has this one for its layout, as the view knows. One may take it between that answer and our
 *  append: it is refused when it is sent. */
type IsUsed = () => Promise<boolean>

/** What is wrong with the fields that are there, each by itself: all of it. Throws when NATS does not answer. */
export async function templateFaults (
  services: WritingServices,
  account: string,
  fields: Partial<TemplateBody>
): Promise<FieldFault[]> {
  const faults = [...fieldFaults(fields), ...syntaxFaults(fields)]
  if (fields.layout == null) return faults
  const layout = await newestOf(services, account, fields.layout)
  if (layout === null) {
    return [...faults, {
      field: 'layout_id',
      code: 'template_not_found',
      message: 'layout_id must be the id of a template.'
    }]
  }
  return mayBeLayout(layout.fact.data)
    ? faults
    : [...faults, notALayout('be a template without a layout whose html and text contain {{{content}}}')]
}

function notALayout (must: string): FieldFault {
  return { field: 'layout_id', code: 'not_a_layout', message: `layout_id must ${must}.` }
}

/** Makes a template. `count` = how many the account has. Throws LogUnavailable. */
export async function createTemplate (
  services: WritingServices,
  asker: Asker,
  body: TemplateBody,
  count: number
): Promise<SavedTemplate | Refusal> {
  const faults = [...emptyFaults(body), ...await templateFaults(services, asker.account, body)]
  if (faults.length > 0) return new InvalidTemplate(faults)
  const full = countFault(count)
  if (full !== null) return full
  const warnings = await warningsOf(services, asker.account, body)
  const nowMs = services.factLog.clock.nowMs()
  const id = newId('tpl', nowMs)
  const fact = stamp(TemplateVersioned, askedBy(asker), { template: id, version: 1, ...body }, nowMs)
  await services.factLog.append([{ fact, expectedSeq: 0 }])
  return { ...storedOf(fact), warnings }
}

/** Makes the next version, with what `change` names; none when nothing is another than before. Throws LogUnavailable or
 *  Conflict. */
export async function changeTemplate (
  services: WritingServices,
  asker: Asker,
  id: string,
  change: Partial<TemplateBody>,
  isUsed: IsUsed
): Promise<SavedTemplate | Refusal> {
  const faults = await templateFaults(services, asker.account, change)
  if (faults.length > 0) return new InvalidTemplate(faults)
  let warnings: TemplateWarning[] = []
  const newest = await appendAfter(services, asker.account, id, async ({ data }) => {
    const { template, version, ...before } = data
    const body = { ...before, ...change }
    warnings = await warningsOf(services, asker.account, body)
    if (isDeepStrictEqual(body, before)) return null
    const refusal = await changeFault(data, body, isUsed)
    return refusal ??
      stamp(
        TemplateVersioned,
        askedBy(asker),
        { template, version: version + 1, ...body },
        services.factLog.clock.nowMs()
      )
  })
  return newest instanceof Refusal ? newest : { ...storedOf(newest), warnings }
}

/** Before the append: when the layout cannot be read, nothing is saved that would be told as a failure. */
async function warningsOf (
  services: WritingServices,
  account: string,
  body: TemplateBody
): Promise<TemplateWarning[]> {
  const layout = body.layout === null ? null : await newestOf(services, account, body.layout)
  return templateWarnings(body, layout?.fact.data ?? null)
}

async function changeFault (
  current: TemplateVersioned['data'],
  body: TemplateBody,
  isUsed: IsUsed
): Promise<Refusal | null> {
  const faults = emptyFaults(body)
  if (body.layout === current.template) faults.push(notALayout('not be the template itself'))
  if (faults.length > 0) return new InvalidTemplate(faults)
  return (mayBeLayout(body) ? null : await useFault(current, isUsed)) ?? versionFault(current.version + 1)
}

/** Ends a template; mail that names it is refused from then on. Null when it is done. Throws LogUnavailable or
 *  Conflict. */
export async function deleteTemplate (
  services: WritingServices,
  asker: Asker,
  id: string,
  isUsed: IsUsed
): Promise<Refusal | null> {
  const ended = await appendAfter(
    services,
    asker.account,
    id,
    async ({ data }) =>
      await useFault(data, isUsed) ??
        stamp(TemplateDeleted, askedBy(asker), { template: id }, services.factLog.clock.nowMs())
  )
  return ended instanceof Refusal ? ended : null
}

/** The view is asked only when the template may be somebody's layout: most changes do without it. */
async function useFault (data: TemplateVersioned['data'], isUsed: IsUsed): Promise<Refusal | null> {
  return mayBeLayout(data) && await isUsed()
    ? new Refusal('template_in_use', 'Other templates use this one as their layout.')
    : null
}

/** Appends what is decided upon the newest version, and decides again after a conflict. Resolves to what is
 *  newest then: that fact, or the one before where there is nothing to append. Throws LogUnavailable or Conflict. */
async function appendAfter<Fact extends TemplateVersioned | TemplateDeleted> (
  services: WritingServices,
  account: string,
  id: string,
  decide: (newest: TemplateVersioned) => Promise<Fact | Refusal | null>
): Promise<Fact | TemplateVersioned | Refusal> {
  return await retryOnConflict(async () => {
    const newest = await newestOf(services, account, id)
    if (newest === null) return new Refusal('not_found', `There is no template ${id}.`)
    const fact = await decide(newest.fact)
    if (fact === null || fact instanceof Refusal) return fact ?? newest.fact
    await services.factLog.append([{ fact, expectedSeq: newest.seq }])
    return fact
  })
}

/** Null when the account has no such template, or no longer. */
async function newestOf (
  { factLog }: WritingServices,
  account: string,
  id: string
): Promise<{ fact: TemplateVersioned, seq: number } | null> {
  const last = isTemplateId(id)
    ? await getFact(factLog.bus, 'CONTROL', { last_by_subj: subjects.template(account, id) }, 'leader')
    : null
  return last?.fact.type === 'template.versioned' ? { fact: last.fact, seq: last.seq } : null
}

function storedOf ({ data, time }: TemplateVersioned): StoredTemplate {
  const { template: id, ...rest } = data
  return { id, ...rest, createdAt: timestamp(idTimeMs(id) ?? Date.parse(time)), updatedAt: time }
}
