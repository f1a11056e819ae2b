import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { ROLES } from '#src/base/config-types.ts'
import { readConfig } from '#src/base/config.ts'
import { SECRET } from '../support/secret.ts'

const root = join(import.meta.dirname, '..', '..')
const readText = (path: string) => readFileSync(join(root, path), 'utf8')

interface Service {
  image: string
  user?: string
  environment?: Record<string, string>
  ports?: string[]
  volumes?: string[]
  tmpfs?: string[]
  read_only?: boolean
  cap_drop?: string[]
  security_opt?: string[]
  stop_grace_period?: string
}

/** A compose file with what it takes from .env put in: the passwords, and the defaults of all else. */
function readCompose (path: string): Record<string, Service> {
  const text = readText(path).replaceAll(
    /\$\{(\w+)(?::([-?])([^}]*))?\}/g,
    (_all, name: string, how: string, rest: string) =>
      how === '-' ? rest : name === 'JETPOST_SECRET' ? SECRET : 'password'
  )
  const { services } = parse(text, { merge: true }) as { services: Record<string, Service> }
  for (const { environment = {} } of Object.values(services)) {
    for (const [name, value] of Object.entries(environment)) environment[name] = value ?? ''
  }
  return services
}

const single = readCompose('docker-compose.yml')
const cluster = readCompose('docs/deploy/cluster/docker-compose.yml')
const isJetpost = ({ image }: Service) => image.startsWith('jetpost:')
const jetposts = Object.entries(cluster).filter(([, service]) => isJetpost(service))

t.test('no container may write to itself, gain rights, or listen beyond this machine', async t => {
  for (const [name, service] of [...Object.entries(single), ...Object.entries(cluster)]) {
    t.match(service, { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] }, name)
    for (const port of service.ports ?? []) t.match(port, /^127\.0\.0\.1:/, `${name} ${port}`)
  }
})

t.test('the cluster has three NATS servers, and two processes of each role', async t => {
  t.equal(
    Object.values(cluster).filter(({ volumes = [] }) => volumes.some(path => path.includes('nats.conf'))).length,
    3
  )
  for (const role of ROLES) {
    const having = jetposts.filter(([, { environment }]) => environment!.JETPOST_ROLES!.split(',').includes(role))
    t.equal(having.length, 2, role)
  }
})

t.test('its processes start with these settings, and take what the single one takes', async t => {
  const own = ['JETPOST_PUBLIC_URL', 'JETPOST_TRUST_PROXY']
  const known = Object.keys(single.jetpost!.environment!)
  for (const [name, { environment, stop_grace_period: grace }] of jetposts) {
    const config = readConfig(environment!)
    t.match(config, { natsReplicas: 3, processes: 1, trustProxy: ['uniquelocal'] }, name)
    t.equal(config.natsUrl!.split(',').length, 3)
    t.strictSame(known.filter(setting => !(setting in environment!)), [], `${name} has all settings`)
    t.equal(grace, single.jetpost!.stop_grace_period)
  }
  for (const setting of known.filter(name => !own.includes(name))) {
    if (/URL$|^JETPOST_SECRET$/.test(setting)) continue
    t.equal(jetposts[0]![1].environment![setting], single.jetpost!.environment![setting], setting)
  }
})

t.test('a command of the documents makes the passwords that the cluster demands', async t => {
  const demanded = readText('docs/deploy/cluster/docker-compose.yml').matchAll(/\$\{(\w+):\?/g)
  const [, made] = /^ {4}\(set -C; umask 77; for n in ([\w ]+)\n/m.exec(readText('docs/deploy.md'))!
  t.strictSame(made!.split(' ').sort(), [...new Set([...demanded].map(([, name]) => name!))].sort())
})

t.test('the proxy publishes nothing that is for those inside', async t => {
  const caddyfile = readText('docs/deploy/cluster/Caddyfile')
  t.match(caddyfile, /@private path \/readyz \/metrics \/healthz\n\trespond @private 404/)
  const upstreams = cluster.proxy!.environment!.JETPOST_UPSTREAMS!.split(' ')
  const apis = jetposts.filter(([, { environment }]) => environment!.JETPOST_ROLES === 'api')
  t.strictSame(upstreams, apis.map(([name, { environment }]) => `${name}:${environment!.PORT}`))
})
