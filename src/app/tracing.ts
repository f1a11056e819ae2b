import { trace } from '@opentelemetry/api'
import type { Config } from '#src/base/config.ts'
import { asError, deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'

/** A collector that takes longer does not hold up a stop. */
const FLUSH_MS = 3000

type TracingConfig = Pick<Config, 'otlpEndpoint' | 'traceRatio'>

/** Sends the spans of this process to the collector of the settings, where there is one: its code is loaded only then.
 *  What the collector does not take is dropped. The exporter reads `OTEL_EXPORTER_OTLP_HEADERS` and the like itself. */
export async function startTracing (
  { otlpEndpoint, traceRatio }: TracingConfig,
  stack: AsyncDisposableStack,
  log: Log
): Promise<void> {
  if (otlpEndpoint === null) return
  const [sdk, { OTLPTraceExporter }, resources, { setGlobalErrorHandler }] = await Promise.all([
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/core')
  ])
  setGlobalErrorHandler(error => log.warn({ reason: reasonOf(error) }, 'the collector did not take traces'))
  const named = resources.detectResources({ detectors: [resources.envDetector, resources.hostDetector] })
  const provider = new sdk.TracerProvider({
    resource: resources.resourceFromAttributes({ 'service.name': 'jetpost', 'process.pid': process.pid }).merge(named),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(traceRatio) }),
    spanProcessors: [
      new sdk.BatchSpanProcessor({ exporter: new OTLPTraceExporter({ url: `${otlpEndpoint}/v1/traces` }) })
    ]
  })
  trace.setGlobalTracerProvider(provider)
  stack.defer(async () => {
    trace.disable()
    await deadline(provider.shutdown(), FLUSH_MS, 'the collector did not answer in time').catch(error =>
      log.warn({ reason: reasonOf(error) }, 'the last traces are lost')
    )
  })
}

/** The library also hands over objects, and strings. */
function reasonOf (error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error
    ? String(error.message)
    : asError(error).message
}
