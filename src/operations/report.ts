import { asError, deadline, Late } from '#src/base/errors.ts'
import { isUnanswered, JetStreamError } from '#src/nats/errors.ts'
import { isMissing, isUnavailable } from '#src/postgres/pool.ts'

/** What could be learned, and a sentence for each thing that could not. */
export interface OperationsReport<T> {
  value: T
  problems: string[]
}

/** A server does not answer; the message is a sentence for the operator. */
export class OperationsUnavailable extends Error {}

/** Of each query to a server, ms. */
export const QUERY_MS = 2500

/** The result, or null and why there is none. Throws what no missing server explains. */
export async function reportOn<T> (
  what: string,
  query: Promise<T>,
  ms = QUERY_MS
): Promise<OperationsReport<T | null>> {
  try {
    return { value: await deadline(query, ms, `no answer within ${ms / 1000} s`), problems: [] }
  } catch (error) {
    return { value: null, problems: [unavailable(what, error).message] }
  }
}

/** One query for each plan: the results of those that answer, and why others do not, each reason once. */
export async function reportOnEach<Plan, T> (
  plans: Plan[],
  nameOf: (plan: Plan) => string,
  query: (plan: Plan) => Promise<T>
): Promise<OperationsReport<T[]>> {
  const reports = await Promise.all(plans.map(async plan => await reportOn(nameOf(plan), query(plan))))
  return {
    value: reports.flatMap(({ value }) => (value === null ? [] : [value])),
    problems: [...new Set(reports.flatMap(({ problems }) => problems))]
  }
}

/** The error as a sentence. Throws the error itself when it is not about a server that is away. */
export function unavailable (what: string, error: unknown): OperationsUnavailable {
  if (error instanceof OperationsUnavailable) return error
  const { message } = asError(error)
  if (error instanceof JetStreamError) return new OperationsUnavailable(`${what}: ${message}.`)
  if (isUnanswered(error) && !(error instanceof Late)) {
    return new OperationsUnavailable(`NATS does not answer: ${message}.`)
  }
  if (isMissing(error)) return new OperationsUnavailable(`${what}: the projection is not built yet.`)
  if (isUnavailable(error)) return new OperationsUnavailable(`PostgreSQL does not answer: ${message}.`)
  if (error instanceof Late) return new OperationsUnavailable(`${what}: ${message}.`)
  throw error
}

export interface Cached<T> {
  (): Promise<T>
  /** The next call queries again. */
  forget(): void
}

/** Shares one query among all who call within `ms` of its end. */
export function cachedFor<T> (ms: number, query: () => Promise<T>): Cached<T> {
  let last: { result: Promise<T>, untilMs: number } | null = null
  const read = (): Promise<T> => {
    if (last !== null && performance.now() < last.untilMs) return last.result
    const entry = { result: query(), untilMs: Infinity }
    const expire = () => {
      entry.untilMs = performance.now() + ms
    }
    entry.result.then(expire, expire)
    last = entry
    return entry.result
  }
  const forget = () => {
    last = null
  }
  return Object.assign(read, { forget })
}
