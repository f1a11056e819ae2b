import t from 'tap'
import { openDnsServer } from '../support/dns-server.ts'
import { startTestApp } from '../support/app.ts'
import { jetpostHere } from '../support/command.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const dns = await openDnsServer(t)
const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const settings = { JETPOST_DNS: dns.address, JETPOST_BOUNCE_DOMAIN: 'bounces.jetpost.example' }
const app = await startTestApp(t, { natsUrl, databaseUrl, env: settings })
const env = {
  ...settings,
  NATS_URL: natsUrl,
  DATABASE_URL: databaseUrl,
  JETPOST_SECRET: SECRET
}
const domains = async (...args: string[]) => await jetpostHere(['domains', ...args], env)

/** The records of a zone file: name, type, and the strings joined. */
function recordsOf (zone: string): string[][] {
  return zone.trim().split('\n').filter(line => !line.startsWith(';')).map(line => {
    const [, name, type, value] = /^(\S+)\.\s+IN\s+(TXT|CNAME)\s+(.+)$/.exec(line)!
    const strings = [...value!.matchAll(/"([^"]{1,255})"/g)].map(match => match[1]!)
    return [name!, type!, type === 'TXT' ? strings.join('') : value!.replace(/\.$/, '')]
  })
}

t.test('a domain is added, published from what is printed, verified and given up in the shell', async t => {
  const added = await domains('add', 'Shop.example')
  t.equal(added.code, 0)
  t.match(added.out, '; shop.example: pending')
  const { body } = await app.request('GET', '/api/domains')
  const wanted = body.data[0].records.map(({ name, type, value }: Record<string, string>) => [name, type, value])
  t.same(recordsOf(added.out), wanted)
  dns.txt(wanted[0][0], 'v=DKIM1; p=other')
  t.match((await domains('verify', 'shop.example')).out, /; dkim \(required\): wrong\n;   found "v=DKIM1; p=other"/)
  t.ok(recordsOf(added.out)[0]![2]!.length > 255, 'which is why it stands in parts')
  dns.txt(wanted[0][0], wanted[0][2])
  t.match(
    (await domains('verify', 'shop.example')).out,
    /; shop\.example: verified\n; dkim \(required\): ok\n[^;].*\n; dkim \(advice\): missing\n/
  )
  t.match(await domains('show', 'SHOP.example'), { code: 0, out: /verified/ })
  t.match(JSON.parse((await domains('show', 'shop.example', '--json')).out), [{
    name: 'shop.example',
    status: 'verified',
    records: [{ purpose: 'dkim', state: 'ok' }, {}, {}, {}]
  }])
  t.match((await domains()).out, /shop\.example\s+verified/)
  dns.fails(wanted[0][0], 'SERVFAIL')
  t.match(await domains('verify', 'shop.example'), { code: 1, err: /DNS does not say: ESERVFAIL/ })
  const { id } = (await app.request('GET', '/api/domains')).body.data[0]
  t.strictSame(
    JSON.parse((await domains('list', '--json')).out),
    (await app.request('GET', '/api/domains')).body.data,
    'as the API shows them'
  )
  t.strictSame(JSON.parse((await domains('remove', 'shop.example', '--json')).out), [{
    id,
    name: 'shop.example',
    removed: true
  }])
  t.match(await domains('show', 'shop.example'), { code: 1, err: 'There is no domain shop.example.' })
})

t.test('keys are rotated in the shell; what is printed is the zone to publish', async t => {
  const before = recordsOf((await domains('add', 'rotated.example')).out)
  const rotated = await domains('rotate', 'rotated.example')
  t.equal(rotated.code, 0)
  t.match(
    rotated.out,
    /; dkim \(a new key: signs once its record is published\): unchecked\n\S+-rsa\._domainkey\.rotated\.example\.\s/
  )
  const both = recordsOf(rotated.out)
  t.equal(both.length, before.length + 2)
  for (const record of before) t.ok(both.some(other => other.join() === record.join()), `${record[0]} stays`)
  t.match(await domains('rotate', 'rotated.example'), { code: 1, err: 'The keys of rotated.example are being rotated' })
  for (const [name, type, value] of both) if (type === 'TXT') dns.txt(name!, value!)
  const switched = (await domains('verify', 'rotated.example')).out
  t.match(switched, /; dkim \(an old key: keep it until \d{4}-\d\d-\d\dT[\d:.]+Z\): ok\n/)
  t.same(recordsOf(switched).sort(), both.sort(), 'the same records, in other places')
})

t.test('what is not understood ends with 2, what cannot be with 1', async t => {
  const unfinished = [['add'], ['show'], ['rotate'], ['dance', 'x.example'], ['constructor', 'x.example'], [
    'show',
    'x.example',
    'more'
  ]]
  await Promise.all(
    unfinished.map(async args =>
      t.match(await domains(...args), { code: 2, err: 'usage: jetpost domains' }, args.join(' '))
    )
  )
  t.match(await domains('add', 'localhost'), { code: 2, err: 'name must be a domain like example.com' })
  for (const args of [[], ['list'], ['add', 'x.example']]) {
    t.match(
      await domains(...args, '--account', 'acc_none'),
      { code: 2, out: '', err: 'There is no account acc_none' },
      args.join(' ')
    )
  }
})
