import { parser } from '@prometheus-io/lezer-promql'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { FROM, startTestApp } from '../support/app.ts'
import { until } from '../support/wait.ts'

const DOCS = join(import.meta.dirname, '..', '..', 'docs')
const readDoc = (path: string) => readFileSync(join(DOCS, path), 'utf8')

/** Prometheus puts these on every series. */
const TARGET_LABELS = ['job', 'instance']
/** Prometheus's own, and its blackbox exporter's: with the labels of a target alone. */
const NOT_OURS = ['up', 'probe_success']

interface Matcher {
  label: string
  op: string
  value: string
}

interface Selector {
  metric: string
  matchers: Matcher[]
}

/** What an expression asks for. Throws when it is no PromQL. */
function readExpression (expression: string): { selectors: Selector[], grouping: string[] } {
  const selectors: Selector[] = []
  const grouping: string[] = []
  parser.parse(expression).iterate({
    enter (node) {
      const text = (child: string) => {
        const found = node.node.getChild(child)
        return found === null ? '' : expression.slice(found.from, found.to)
      }
      if (node.type.isError) throw new Error(`no PromQL at ${node.from}: ${expression}`)
      if (node.name === 'VectorSelector') selectors.push({ metric: text('Identifier'), matchers: [] })
      if (node.name === 'UnquotedLabelMatcher') {
        const value = JSON.parse(text('StringLiteral')) as string
        selectors.at(-1)!.matchers.push({ label: text('LabelName'), op: text('MatchOp'), value })
      }
      if (node.name === 'GroupingLabels') {
        const names = node.node.getChildren('LabelName').map(({ from, to }) => expression.slice(from, to))
        grouping.push(...names)
      }
    }
  })
  return { selectors, grouping }
}

/** The series of /metrics: name → labels of each. */
function readSeries (text: string): Map<string, Array<Record<string, string>>> {
  const series = new Map<string, Array<Record<string, string>>>()
  for (const line of text.split('\n')) {
    const [, name, labels = ''] = /^([a-z_]\w*)(?:\{(.*)\})? \S+$/.exec(line) ?? []
    if (name === undefined) continue
    const of = series.get(name) ?? []
    of.push(Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, value]) => [label, value])))
    series.set(name, of)
  }
  return series
}

type Series = ReturnType<typeof readSeries>

/** Why an expression can find nothing, or null. */
function faultOf (expression: string, series: Series): string | null {
  const { selectors, grouping } = readExpression(expression)
  if (selectors.length === 0) return 'names no metric'
  const known = new Set(TARGET_LABELS)
  for (const { metric, matchers } of selectors) {
    const found = NOT_OURS.includes(metric) ? [{}] : series.get(metric)
    if (found === undefined) return `/metrics has no ${metric}`
    for (const labels of found) for (const label of Object.keys(labels)) known.add(label)
    const own = matchers.filter(({ label }) => !TARGET_LABELS.includes(label))
    const lacking = own.find(({ label, op, value }) =>
      !found.some((labels: Record<string, string>) => op === '=' ? labels[label] === value : label in labels)
    )
    if (lacking !== undefined) return `no ${metric} has ${lacking.label}${lacking.op}"${lacking.value}"`
  }
  const foreign = grouping.find(label => !known.has(label))
  return foreign === undefined ? null : `no series has the label ${foreign}`
}

interface Rule {
  alert: string
  expr: string
  for?: string
  labels: { severity: string }
  annotations: { summary: string, runbook: string }
}

const rules = (parse(readDoc('deploy/prometheus/rules.yml')) as { groups: Array<{ rules: Rule[] }> }).groups
  .flatMap(group => group.rules)

interface Panel {
  type: string
  title: string
  gridPos: { x: number, y: number, w: number, h: number }
  targets?: Array<{ expr: string }>
}

const dashboard = JSON.parse(readDoc('deploy/grafana/jetpost.json')) as { panels: Panel[] }
/** Grafana puts the interval of its picture for this. */
const expressions = dashboard.panels.flatMap(({ targets = [] }) =>
  targets.map(({ expr }) => expr.replaceAll('$__rate_interval', '5m'))
)

/** What an autoscaler asks prometheus-adapter for, and that Prometheus. */
function scalerExpressions (): string[] {
  const { rules: { external } } = parse(readDoc('deploy/prometheus/adapter.yml')) as {
    rules: { external: Array<{ name: { as: string }, metricsQuery: string }> }
  }
  const { groups } = parse(readDoc('deploy/helm/jetpost/values.yaml')) as {
    groups: Record<string, { autoscaling: { metrics: Array<{ external?: { metric: any } }> } }>
  }
  return Object.values(groups).flatMap(({ autoscaling }) => autoscaling.metrics).flatMap(({ external: of }) => {
    if (of === undefined) return []
    const { name, selector: { matchLabels } } = of.metric
    const matchers = Object.entries(matchLabels).map(([label, value]) => `${label}="${String(value)}"`)
    const query = external.find(({ name: { as } }) => as === name)!.metricsQuery
    return [query.replace('<<.LabelMatchers>>', matchers.join())]
  })
}

/** The metrics of a process that has sent mail, had some refused, and read a complaint. */
async function liveSeries (t: Test): Promise<Series> {
  const app = await startTestApp(t, { env: { JETPOST_ALERT_TO: 'ops@example.net', JETPOST_ALERT_FROM: FROM } })
  const sent = [['bounced', 'bounced'], ['complained', 'delivered']].map(async ([name, status]) => {
    const { body } = await app.send({ to: `${name}@sandbox.jetpost.test` })
    await app.settled(body.id, status!)
  })
  await Promise.all(sent)
  let series: Series = new Map()
  await until(async () => {
    series = readSeries((await app.request('GET', '/metrics')).body)
    return series.has('jetpost_inbound_mails_total')
  }, 20_000)
  return series
}

t.test('monitoring asks for what /metrics has', async t => {
  const series = await liveSeries(t)
  t.ok(rules.length > 15 && expressions.length > 20, `${rules.length} rules, ${expressions.length} expressions`)
  for (const { alert, expr } of rules) t.equal(faultOf(expr, series), null, alert)
  t.equal(scalerExpressions().length, 2)
  for (const expression of [...expressions, ...scalerExpressions()]) {
    t.equal(faultOf(expression, series), null, expression)
  }
  const asked = new Set([...rules.map(({ expr }) => expr), ...expressions].join(' ').match(/\bjetpost_\w+/g))
  const base = (name: string) => name.replace(/_(?:bucket|sum|count)$/, '')
  const shown = new Set([...asked].map(base))
  const ours = new Set([...series.keys()].filter(name => name.startsWith('jetpost_')).map(base))
  t.strictSame([...ours].filter(name => !shown.has(name)), [], 'nothing is measured that nobody looks at')
  t.test('and a wrong name, label, value or word is found', async t => {
    t.equal(faultOf('rate(jetpost_smtp_attempt_total[5m]) > 0', series), '/metrics has no jetpost_smtp_attempt_total')
    t.match(faultOf('jetpost_smtp_attempts_total{result="defered"}', series), /has result="defered"/)
    t.match(faultOf('jetpost_smtp_attempts_total{outcome=~".+"}', series), /has outcome=~/)
    t.match(faultOf('sum by (host) (jetpost_smtp_in_flight)', series), /the label host/)
    t.throws(() => faultOf('sum(rate(up[5m])', series), /no PromQL/)
  })
})

t.test('a counter of what is rare begins with 0', async t => {
  const app = await startTestApp(t)
  const { body } = await app.request('GET', '/metrics')
  for (
    const sample of [
      'jetpost_smtp_attempts_total{result="in_doubt"} 0',
      'jetpost_webhook_attempt_seconds_count{result="failed"} 0',
      'jetpost_visits_dropped_total{reason="full"} 0',
      'jetpost_alert_notices_total{channel="mail",result="failed"} 0'
    ]
  ) t.ok(body.split('\n').includes(sample), sample)
})

t.test('the backlog of a consumer counts what its worker has not done', async t => {
  const app = await startTestApp(t, { env: { JETPOST_ROLES: 'api,scheduler,projector' } })
  for (let i = 0; i < 3; i++) await app.send()
  const { body } = await app.request('GET', '/metrics')
  t.match(body, /^jetpost_consumer_backlog\{consumer="sender"\} 3$/m)
})

t.test('every alert says how bad it is, and what to do', async t => {
  const headings = new Set([...readDoc('handbook.md').matchAll(/^#+ (Jetpost\w+)$/gm)].map(([, name]) => name))
  t.strictSame(rules.map(({ alert }) => alert).filter(name => !headings.has(name)), [], 'each has a heading')
  t.strictSame([...headings].filter(name => !rules.some(({ alert }) => alert === name)), [], 'and no other has')
  for (const { alert, labels, annotations } of rules) {
    t.ok(['page', 'ticket'].includes(labels.severity), `${alert}: ${labels.severity}`)
    t.ok(annotations.summary.length > 20, alert)
    t.equal(annotations.runbook, `docs/handbook.md#${alert.toLowerCase()}`)
  }
  t.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length, 'names differ')
})

t.test('no panel of the dashboard lies on another, or beyond the edge', async t => {
  const { panels } = dashboard
  const isOver = ({ gridPos: a }: Panel, { gridPos: b }: Panel) =>
    a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
  const wrong = panels.filter((panel, i) => panels.slice(i + 1).some(other => isOver(panel, other)))
  t.strictSame([...wrong, ...panels.filter(({ gridPos: { x, w } }) => x + w > 24)], [])
})
