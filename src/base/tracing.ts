import {
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Attributes,
  type Span
} from '@opentelemetry/api'
import { asError } from './errors.ts'

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, producer: SpanKind.PRODUCER } as const

/** What a span is called and tells; `parent` = the `traceparent` of the span that led to it. */
export interface SpanStart {
  name: string
  kind: keyof typeof KINDS
  parent: string | undefined
  attributes?: Attributes
}

/** Version, trace id, span id, flags. Source: W3C Trace Context 3.2. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?=-|$)/

/** Without a parent it may begin a trace. Where `src/app/tracing.ts` has not said where spans go, it is none. */
export function startSpan ({ name, kind, parent, attributes }: SpanStart): Span {
  return trace.getTracer('jetpost').startSpan(name, { kind: KINDS[kind], attributes }, contextOf(parent))
}

function contextOf (parent = '') {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(parent) ?? []
  if (flags === undefined) return ROOT_CONTEXT
  const above = { traceId: traceId!, spanId: spanId!, traceFlags: parseInt(flags, 16), isRemote: true }
  return isSpanContextValid(above) ? trace.setSpanContext(ROOT_CONTEXT, above) : ROOT_CONTEXT
}

/** The `traceparent` for what follows from a span; undefined where it is not recorded. */
export function traceparentOf (span: Span): string | undefined {
  if (!span.isRecording()) return undefined
  const { traceId, spanId } = span.spanContext()
  return `00-${traceId}-${spanId}-01`
}

/** Does work that follows from a traced ask in a span of its own; where nothing led to it, `span` is null. */
export async function inSpan<T> (start: SpanStart, work: (span: Span | null) => Promise<T>): Promise<T> {
  if (start.parent === undefined) return await work(null)
  const span = startSpan(start)
  try {
    return await work(span)
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: asError(error).name })
    throw error
  } finally {
    span.end()
  }
}
