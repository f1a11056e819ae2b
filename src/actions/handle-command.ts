import type { AnyFact } from '#streams/catalog.ts'
import { Refusal, type Unstamped } from '#streams/define.ts'
import { entitiesOf, evolveEntity, type Entities } from '#streams/directory.ts'
import { placeOf } from '#streams/place.ts'
import { stamp, type FactCause } from './fact-log.ts'
import { retryOnConflictOf } from './retry-on-conflict.ts'
import type { Services } from './services.ts'

/** An entity of the directory under its kind's name, as the directory's own fold makes it of the facts; as it was when
 *  they end it. `seq` is the last one's in CONTROL: a node whose directory has reached it knows; 0 when nothing
 *  changed. */
export type Handled<Kind extends keyof Entities> = { [K in Kind]: Entities[K] } & { seq: number }

export type CommandServices = Pick<Services, 'factLog' | 'directory'>

/** What a command comes to, by the entity as this process knows it (undefined = there is none) and the time in Unix ms:
 *  facts, none when it is so already, or a refusal. Pure: it is asked again after a conflict. */
export type Decide<Kind extends keyof Entities> = (
  entity: Entities[Kind] | undefined,
  nowMs: number
) => Unstamped[] | Refusal

/** Decides and appends, if nothing has happened to the entity since what it was decided on; else the directory catches
 *  up with the log, and it is decided again. Throws LogUnavailable, or Conflict when conflicts do not end. */
export async function handleCommand<Kind extends keyof Entities> (
  services: CommandServices,
  kind: Kind,
  id: string,
  cause: FactCause,
  decide: Decide<Kind>
): Promise<Handled<Kind> | Refusal> {
  const { factLog, directory } = services
  return await retryOnConflictOf(directory, async () => {
    const before = entitiesOf(directory.now, kind).get(id)
    const nowMs = factLog.clock.nowMs()
    const decided = decide(before, nowMs)
    if (decided instanceof Refusal) return decided
    const facts = decided.map(({ type, data }) => stamp(type, cause, data, nowMs) as AnyFact)
    if (facts.length === 0) return handled(kind, id, before, facts, 0)
    // All or none: what the first expects holds for those behind it.
    const expectedSeq = directory.now.versions.get(placeOf(facts[0]!).subject) ?? 0
    const seqs = await factLog.append(facts.map((fact, i) => (i === 0 ? { fact, expectedSeq } : { fact })))
    return handled(kind, id, before, facts, seqs.at(-1)!)
  })
}

/** Appends the first facts of an entity. Throws Conflict when its subject has one already, or LogUnavailable. */
export async function createEntity<Kind extends keyof Entities> (
  { factLog }: Pick<Services, 'factLog'>,
  kind: Kind,
  id: string,
  ...facts: AnyFact[]
): Promise<Handled<Kind>> {
  const seqs = await factLog.append(facts.map((fact, i) => (i === 0 ? { fact, expectedSeq: 0 } : { fact })))
  return handled(kind, id, undefined, facts, seqs.at(-1)!)
}

function handled<Kind extends keyof Entities> (
  kind: Kind,
  id: string,
  before: Entities[Kind] | undefined,
  facts: AnyFact[],
  seq: number
): Handled<Kind> {
  return { [kind]: evolveEntity(kind, id, before, facts) ?? before, seq } as Handled<Kind>
}
