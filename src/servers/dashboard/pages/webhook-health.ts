import { endpointAnswers, type EndpointAnswers } from '#projections/deliveries/health.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Webhook } from '#src/client/client.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { duration, number, percent, time } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { responseText, stateBadge } from './webhook-format.ts'
import { readDeliveries } from './webhook-queries.ts'

const DAY_MS = 86_400_000
/** Bars of a sparkline, an hour each. */
const BARS = 24
const [BAR_PX, HEIGHT_PX] = [4, 20]

/** How the endpoints answered in the last 24 hours; null while it cannot be read. */
export async function healthOf (
  context: DashboardContext,
  visit: Visit,
  webhooks: string[]
): Promise<Map<string, EndpointAnswers> | null> {
  const { account: { id: account }, nowMs } = visit
  const query = endpointAnswers({ account, webhooks, sinceMs: nowMs - DAY_MS, nowMs, stretches: BARS })
  return await readDeliveries(context, account, query)
}

/** `Failing: HTTP 503, last success never`, or the state. */
export function healthState (webhook: Webhook, health: EndpointAnswers | undefined, nowMs: number): Html {
  if (webhook.failing_since === null || webhook.status === 'disabled' || health?.last == null) {
    return stateBadge(webhook, nowMs)
  }
  return html`<span class="fault">Failing: ${answer(health)}, last success ${
    health.lastSuccess === null ? 'never' : time(health.lastSuccess, nowMs)
  }</span>`
}

function answer ({ last }: EndpointAnswers): string {
  return responseText({ status: null, error: null, error_kind: null, duration_ms: 0, ...last }).slice(0, 80)
}

/** The share that arrived, with a bar for each hour. */
export function successCell (health: EndpointAnswers | undefined): Html {
  if (health === undefined || health.delivered + health.failing === 0) return html`<span class="none">–</span>`
  const { delivered, failing } = health
  return html`<span class="rate">${percent(delivered / (delivered + failing))}</span> ${sparkline(health)}`
}

/** Bars of what arrived, and in red of what did not; for the eye: the figures stand beside it. */
function sparkline ({ stretches }: EndpointAnswers): Html {
  const most = Math.max(1, ...stretches.map(({ delivered, failing }) => delivered + failing))
  const px = (count: number) => Math.ceil(count / most * HEIGHT_PX)
  const bars = stretches.map(({ delivered, failing }, i) => {
    const [good, bad] = [px(delivered), Math.min(px(failing), HEIGHT_PX)]
    const bar = (name: string, y: number, height: number) =>
      height > 0 && html`<rect class="${name}" x="${i * BAR_PX}" y="${y}" width="3" height="${height}"/>`
    return html`${bar('good', HEIGHT_PX - good, good)}${bar('bad', Math.max(0, HEIGHT_PX - good - bad), bad)}`
  })
  return html`<svg class="spark" width="${BARS * BAR_PX}" height="${HEIGHT_PX}" aria-hidden="true">${bars}</svg>`
}

export function lastAnswer (health: EndpointAnswers | undefined): Html {
  return health?.last == null ? html`<span class="none">–</span>` : html`${answer(health)}`
}

export function latency (health: EndpointAnswers | undefined): Html {
  return health?.medianMs == null
    ? html`<span class="none">–</span>`
    : html`${health.medianMs < 1000 ? `${number(health.medianMs)} ms` : duration(health.medianMs)}`
}
