import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { ROLES } from '#src/base/config-types.ts'
import { readConfig } from '#src/base/config.ts'
import { settings } from '#src/base/settings.ts'
import { SECRET } from '../support/secret.ts'

const root = join(import.meta.dirname, '..', '..')
const CHART = join(root, 'docs/deploy/helm/jetpost')
const readText = (path: string) => readFileSync(join(CHART, path), 'utf8')
const templates = globSync('templates/*', { cwd: CHART }).map(path => ({ path, text: readText(path) }))
const values = parse(readText('values.yaml'))

const HELM = process.env.JETPOST_TEST_HELM ?? 'helm'
const skip = spawnSync(HELM, ['version']).status === 0
  ? false
  : 'helm is not there: JETPOST_TEST_HELM names its program'
const MUST = [
  'image.repository=registry.example.com/jetpost',
  'existingSecret=own',
  'publicUrl=https://mail.example.com'
]
const ALL = [
  'inbound.enabled=true',
  'submission.enabled=true',
  'ingress.enabled=true',
  'ingress.host=mail.example.com',
  'ingress.tlsSecret=tls',
  'nats.credsSecret.name=creds',
  'ca.configMap=ca',
  'podMonitor.enabled=true',
  'groups.api.autoscaling.enabled=true',
  'groups.sender.autoscaling.enabled=true',
  'env.JETPOST_BOUNCE_DOMAIN=bounces.example.com'
]

interface Container {
  args?: string[]
  env: Array<{ name: string, value: string }>
  ports?: Array<{ name: string, containerPort: number }>
  volumeMounts: Array<{ name: string, mountPath: string }>
  securityContext: object
}

interface Manifest {
  kind: string
  metadata: { name: string }
  spec: any
}

function render (...set: string[]): { status: number | null, stderr: string, manifests: Manifest[] } {
  const wishes = set.flatMap(wish => ['--set', wish])
  const args = ['template', 'mail', CHART, '--kube-version', '1.31.0', ...wishes]
  const { status, stdout, stderr } = spawnSync(HELM, args, { encoding: 'utf8' })
  return { status, stderr, manifests: parseAllDocuments(stdout).map(document => document.toJS() as Manifest) }
}

t.test('the chart is of this version, and its groups have every role', async t => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  t.match(parse(readText('Chart.yaml')), { version, appVersion: version })
  const groups = Object.values(values.groups) as Array<{ roles: string, replicas: number }>
  t.strictSame(groups.flatMap(({ roles }) => roles.split(',')).sort(), [...ROLES].sort(), 'each role in one group')
  t.ok(groups.every(({ replicas }) => replicas >= 2), 'two of each')
})

t.test('what the templates set are settings, and what the probes ask for is answered', async t => {
  const known = new Set(Object.values(settings).map(({ env }) => env))
  const text = templates.map(template => template.text).join('\n')
  const set = [...text.matchAll(/- \{ name: ([A-Z_]+), value:/g)].map(([, name]) => name!)
  t.ok(set.length > 8, 'they are found')
  t.strictSame(set.filter(name => !known.has(name)), ['NODE_EXTRA_CA_CERTS'], "Node's own beside ours")
  const health = readFileSync(join(root, 'src/servers/ops/health.ts'), 'utf8')
  const routes = [...health.matchAll(/app\.get\('([^']+)'/g)].map(([, path]) => path)
  const asked = [...text.matchAll(/httpGet: \{ path: (\S+), port: http \}/g)].map(([, path]) => path!)
  t.strictSame([...new Set(asked)].sort(), routes.sort())
})

t.test('every value is used, and every value that is used is there', async t => {
  const used = new Set(
    templates.flatMap(({ text }) => [...text.matchAll(/\$?\.Values\.([A-Za-z]+)/g)].map(([, name]) => name!))
  )
  t.strictSame([...used].sort(), Object.keys(values).sort())
})

t.test('helm renders it: settings that Jetpost starts with, and pods that may do nothing else', { skip }, async t => {
  const { status, stderr, manifests } = render(...MUST, ...ALL)
  t.equal(status, 0, stderr)
  const kinds = new Set(manifests.map(({ kind }) => kind))
  for (
    const kind of [
      'Deployment',
      'Service',
      'Ingress',
      'PodDisruptionBudget',
      'HorizontalPodAutoscaler',
      'PodMonitor',
      'Job'
    ]
  ) t.ok(kinds.has(kind), kind)
  const pods = manifests.filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
  t.equal(pods.length, 5)
  for (const { metadata: { name }, spec: { template: { metadata, spec } } } of pods) {
    t.match(spec, { automountServiceAccountToken: false, securityContext: { runAsNonRoot: true } }, name)
    const [container] = spec.containers as [Container]
    t.match(container.securityContext, { readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } }, name)
    const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]))
    const secret = { JETPOST_SECRET: SECRET, NATS_URL: 'tls://n1:4222', DATABASE_URL: 'postgres://jetpost@db/jetpost' }
    const config = readConfig({ ...secret, ...env })
    t.match(config, { natsCreds: '/etc/jetpost/nats/nats.creds', inboundPort: 2525, natsReplicas: 3 }, name)
    const opened = (container.ports ?? []).map(({ containerPort }) => containerPort)
    t.equal(config.submissionPort, 2587)
    const listens = [
      config.port,
      ...(config.roles.has('inbound') ? [config.inboundPort!] : []),
      ...(config.roles.has('submission') ? [config.submissionPort!] : [])
    ]
    if (container.args === undefined) {
      t.strictSame(opened, listens, name)
      t.equal(metadata.labels['jetpost/inbound'], config.roles.has('inbound') ? 'true' : undefined)
      t.ok(spec.terminationGracePeriodSeconds >= 55, 'longer than the drain')
    } else t.strictSame(container.args, ['migrate'])
  }
  for (const { kind, spec } of manifests.filter(({ kind }) => /Autoscaler|Budget/.test(kind))) {
    const target = spec.scaleTargetRef?.name ?? `mail-${spec.selector.matchLabels['app.kubernetes.io/component']}`
    t.ok(pods.some(({ metadata }) => metadata.name === target), `${kind} of ${target}`)
  }
})

t.test('helm says what must be set', { skip }, async t => {
  t.equal(render(...MUST).status, 0)
  for (const wish of MUST) {
    const { status, stderr } = render(...MUST.filter(other => other !== wish))
    t.not(status, 0)
    t.match(stderr, `${wish.split('=')[0]} must be set`)
  }
})
