import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
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
  entrypoint?: string[]
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
      how === '-' ? rest : name === 'SERVICE_URL_JETPOST' ? 'https://mail.example.com' : SECRET
  )
  const { services } = parse(text, { merge: true }) as { services: Record<string, Service> }
  for (const service of Object.values(services)) {
    const given = service.environment ?? {}
    // A list of `NAME=value`, or a map.
    const pairs = Array.isArray(given)
      ? (given as string[]).map(line => [line.split('=')[0]!, line.slice(line.indexOf('=') + 1)])
      : Object.entries(given).map(([name, value]) => [name, value ?? ''])
    service.environment = Object.fromEntries(pairs)
  }
  return services
}

const single = readCompose('docker-compose.yml')
const cluster = readCompose('docs/deploy/cluster/docker-compose.yml')
const coolify = readCompose('docs/deploy/coolify/jetpost.yaml')
const isJetpost = ({ image }: Service) => image.startsWith('jetpost:')
const jetposts = Object.entries(cluster).filter(([, service]) => isJetpost(service))

t.test('no container may write to itself, gain rights, or listen beyond this machine', async t => {
  for (const [name, service] of [single, cluster, coolify].flatMap(file => Object.entries(file))) {
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
  const [, made] = /^ {6}for n in ([\w ]+)\n/m.exec(readText('docs/deploy.md'))!
  t.strictSame(made!.split(' ').sort(), [...new Set([...demanded].map(([, name]) => name!))].sort())
})

t.test('the template of Coolify has settings that are, and NATS as Jetpost wants it', async t => {
  const { SERVICE_URL_JETPOST_8080: own, ...environment } = coolify.jetpost!.environment!
  t.equal(own, 'SERVICE_URL_JETPOST_8080')
  t.match(readConfig(environment), { publicUrl: 'https://mail.example.com', port: 8080 })
  const [, , script] = coolify.nats!.entrypoint!
  const options = (text: string) =>
    [...text.replaceAll(/^ *#.*/gm, '').matchAll(/(\w+): ?([\w./:"$]+)/g)].map(([, name, value]) => `${name} ${value}`)
  t.strictSame(options(script!.replaceAll('$$', '$')), options(readText('src/nats/server.conf')))
})

const unit = readText('docs/deploy/systemd/jetpost@.service')

t.test('the unit gives Jetpost time to drain, and no more rights than it needs', async t => {
  t.match(unit, /^TimeoutStopSec=50$/m, 'as long as docker-compose.yml does')
  const path = join(t.testdir(), 'jetpost@.service')
  const program = /^ExecStart=(\S+) \/opt\/jetpost\/(\S+) start$/m.exec(unit)!
  t.equal(program[1], '/usr/bin/node')
  t.ok(existsSync(join(root, program[2]!)))
  writeFileSync(path, unit.replace(program[1]!, process.execPath))
  const analyze = (...args: string[]) => spawnSync('systemd-analyze', [...args, path], { encoding: 'utf8' })
  if (analyze('--version').error !== undefined) {
    return t.comment('systemd is not installed: the unit is read, not verified')
  }
  const verified = analyze('verify', '--man=no')
  t.strictSame([verified.status, verified.stderr], [0, ''])
  t.equal(analyze('security', '--offline=yes', '--threshold=15').status, 0, 'its exposure is 1.5 at most')
})

t.test('the proxy publishes nothing that is for those inside', async t => {
  const caddyfile = readText('docs/deploy/cluster/Caddyfile')
  t.match(caddyfile, /@private path \/readyz \/metrics \/healthz\n\trespond @private 404/)
  const upstreams = cluster.proxy!.environment!.JETPOST_UPSTREAMS!.split(' ')
  const apis = jetposts.filter(([, { environment }]) => environment!.JETPOST_ROLES!.split(',').includes('api'))
  t.strictSame(upstreams, apis.map(([name, { environment }]) => `${name}:${environment!.PORT}`))
})
