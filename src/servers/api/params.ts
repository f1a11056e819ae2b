import { Type, type TObject } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Refusal, type FieldFault } from '#streams/define.ts'
import type { Asker } from '#src/actions/services.ts'
import { parseTime } from '#src/base/clock.ts'
import { schemaFaults } from './context.ts'
import { conflict, type FaultList, forbidden, invalid, mustFault, notFound, unauthorized } from './errors.ts'

/** The path of one thing. An id of another shape is one that nobody has. */
export const IdParams = Type.Object({ id: Type.String() })

export function isEmailId (id: string): boolean {
  return /^em_[0-9a-z]{1,64}$/.test(id)
}

/** What a time must do, for its faults: `parseTime` in base/clock.ts knows which are right. */
export const MUST_BE_TIME = 'be a time with an offset, like 2026-11-21T12:00:00Z'
/** The same of an address: `parseAddress` in streams/address.ts. */
export const MUST_BE_ADDRESS = 'be an email address'
export const MUST_BE_OBJECT = 'be a JSON object'

/** The same of a time in a query, where a + that came as it is means a space. */
export function mustBeTime (text: string, must = MUST_BE_TIME): string {
  return /^[\d-]+T[\d:.]+ \d\d:?\d\d$/i.test(text) ? `${must}: write its + as %2B` : must
}

/** A time of a query. */
export const timeText = (description: string) => Type.String({ maxLength: 40, description, must: MUST_BE_TIME })

/** Reads texts of a query by what no schema can say: null where one is left out, or at fault, which `faults` then has.
 */
export function textReader<Query extends object> (query: Query, faults: FaultList) {
  return function read<T> (
    field: keyof Query & string,
    parse: (text: string) => T | null,
    code: string,
    must?: string
  ): T | null {
    const text = query[field] as string | undefined
    const value = text === undefined || faults.has(field) ? null : parse(text)
    if (text !== undefined && value === null) faults.must(field, code, mustBeTime(text, must))
    return value
  }
}

/** A single value as a list of one, as OpenAPI's exploded form means it: `type=a`, and `type=a&type=b`. For
 *  `preValidation`. */
export function listing<Query extends object> (query: Query, names: readonly string[]): Query {
  const lists = names.flatMap(name => {
    const value = (query as Record<string, unknown>)[name]
    return typeof value === 'string' ? [[name, [value]]] : []
  })
  return { ...query, ...Object.fromEntries(lists) }
}

/** A body that may as well be left out. */
export function orNothing<Body extends TObject> (body: Body, examples: unknown[]) {
  return Type.Union([body, Type.Null()], { must: `${MUST_BE_OBJECT}, or left out`, examples })
}

/** What `judge` refuses of a text in the body, where its schema has found no fault: for `refuseFaults`, which names
 *  both. */
export function textFaults (request: FastifyRequest, field: string, judge: (text: string) => unknown): FieldFault[] {
  const text = (request.body as Record<string, unknown> | null)?.[field]
  if (typeof text !== 'string' || schemaFaults(request).some(fault => fault.field === field)) return []
  const judged = judge(text)
  return judged instanceof Refusal ? [{ field, code: judged.code, message: judged.message }] : []
}

/** The same of a time. */
export function timeFaults (request: FastifyRequest, field: string): FieldFault[] {
  const fault = mustFault(field, 'invalid_value', MUST_BE_TIME)
  return textFaults(request, field, text => (parseTime(text) === null ? new Refusal(fault.code, fault.message) : null))
}

export function askerOf ({ principal, id, ip, actor }: FastifyRequest): Asker {
  const { account, id: keyId, test } = principal!
  return { account, correlation: id, actor: actor ?? { kind: 'key', id: keyId, ip }, test }
}

/** What an action gave; its refusal is thrown as an answer. `fields`: code → the field whose fault it is. */
export function granted<T> (result: T | Refusal, fields: Record<string, string> = {}): T {
  if (!(result instanceof Refusal)) return result
  const { code, message } = result
  const field = fields[code]
  if (field !== undefined) throw invalid([{ field, code, message }])
  if (code === 'not_found') throw notFound()
  if (code === 'unauthorized') throw unauthorized()
  if (code === 'insufficient_permissions') throw forbidden(message)
  throw conflict(code, message)
}
