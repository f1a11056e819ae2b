import { Type } from '@sinclair/typebox'
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { accountFacts } from './account/facts.ts'
import { alertFacts } from './alert/facts.ts'
import { backupFacts } from './backup/facts.ts'
import { Actor, Id, Nullable, Time, type Fact, type FactOf } from './define.ts'
import { deliveryFacts } from './delivery/facts.ts'
import { domainFacts } from './domain/facts.ts'
import { emailFacts } from './email/facts.ts'
import { erasureFacts } from './erasure/facts.ts'
import { feedbackSourceFacts } from './feedback-source/facts.ts'
import { inboundFacts } from './inbound/facts.ts'
import { keyFacts } from './key/facts.ts'
import { operationFacts } from './operation/facts.ts'
import { replayFacts } from './replay/facts.ts'
import { routeFacts } from './route/facts.ts'
import { sessionFacts } from './session/facts.ts'
import { suppressionFacts } from './suppression/facts.ts'
import { templateFacts } from './template/facts.ts'
import { usageFacts } from './usage/facts.ts'
import { userFacts } from './user/facts.ts'
import { webhookFacts } from './webhook/facts.ts'

/** Facts that there are by the million: nobody's command is told of, nor looked for. */
const flow = [...emailFacts, ...deliveryFacts, ...replayFacts, ...inboundFacts]

const types = [
  ...flow,
  ...accountFacts,
  ...keyFacts,
  ...domainFacts,
  ...webhookFacts,
  ...routeFacts,
  ...feedbackSourceFacts,
  ...suppressionFacts,
  ...templateFacts,
  ...erasureFacts,
  ...usageFacts,
  ...userFacts,
  ...sessionFacts,
  ...alertFacts,
  ...backupFacts,
  ...operationFacts
]

/** Every type in its present version; all versions from 1 on can be read. */
export const factTypes: ReadonlyArray<{ name: string, version: number }> = types

/** Every fact there is, told apart by `type`. */
export type AnyFact = FactOf<typeof types[number]>

const byName = new Map(types.map(type => [type.name as string, type]))
const flowNames = new Set<string>(flow.map(({ name }) => name))
const checks = new Map<string, TypeCheck<ReturnType<typeof envelope>>>()

function envelope (type: typeof types[number]) {
  const common = {
    id: Id('ev'),
    type: Type.Literal(type.name),
    version: Type.Literal(type.version),
    time: Time,
    account: Id('acc'),
    causation: Nullable(Id('ev')),
    correlation: Type.String({ minLength: 1, maxLength: 200 }),
    trace: Type.Optional(Type.String({ maxLength: 55 })),
    data: type.data
  }
  return flowNames.has(type.name) ? Type.Object(common) : Type.Object({ ...common, actor: Type.Optional(Actor) })
}

/** A fact that this code does not know: a newer Jetpost wrote it, and can read it. */
export class Newer extends Error {}

function typeOf (name: string) {
  const type = byName.get(name)
  if (type === undefined) throw new Newer(`unknown fact type ${JSON.stringify(name)}`)
  return type
}

/** Compiles a type's check once, at its first use. */
function checkOf (name: string) {
  const known = checks.get(name)
  if (known !== undefined) return known
  const check = TypeCompiler.Compile(envelope(typeOf(name)))
  checks.set(name, check)
  return check
}

/** Throws when the fact is of no known type or does not fit its schema. The message names the place, never the value:
 *  it may be private. */
export function checkFact (fact: Fact): AnyFact {
  const check = checkOf(fact.type)
  if (check.Check(fact)) return fact as AnyFact
  const fault = check.Errors(fact).First()
  throw new Error(`${fact.type} does not fit its schema at ${fault?.path}: ${fault?.message}`)
}

const decoder = new TextDecoder('utf-8', { fatal: true })

/** The bytes of a fact for the log; throws like checkFact. */
export function encodeFact (fact: Fact): Uint8Array {
  // A TextEncoder takes six times as long.
  return Buffer.from(JSON.stringify(checkFact(fact)))
}

/** Reads a fact from the log, of whatever version; throws when it is not JSON or like checkFact. */
export function decodeFact (bytes: Uint8Array): AnyFact {
  return checkFact(upcast(JSON.parse(decoder.decode(bytes)) as Fact))
}

/** A fact of any version as one of the present version; what is none is left as it is, for the check to refuse. */
export function upcast (fact: Fact): Fact {
  const { version: present, past } = typeOf(fact.type)
  if (fact.version === present || !Number.isInteger(fact.version) || fact.version < 1) return fact
  if (fact.version > present) {
    throw new Newer(
      `${fact.type} has version ${fact.version}, and this Jetpost knows ${present}: it was written by a newer one`
    )
  }
  return { ...fact, version: present, data: past.slice(fact.version - 1).reduce((data, step) => step(data), fact.data) }
}

/** The fact of that name. */
export type FactNamed<Name extends AnyFact['type']> = Extract<AnyFact, { type: Name }>
/** All facts about a kind of thing. */
export type FactOn<Entity extends string> = Extract<AnyFact, { type: `${Entity}.${string}` }>
