import t from 'tap'
import { namesHost, parsePolicy, policyId } from '#src/workers/sender/mta-sts.ts'

const lines = (...text: string[]) => text.join('\r\n')

t.test('RFC 8461 3.1: exactly one record is meant, whatever else the name has', async t => {
  t.equal(policyId(['v=STSv1; id=20160831085700Z;']), '20160831085700Z')
  t.equal(policyId(['v=STSv1;id=1']), '1')
  t.equal(policyId(['v=spf1 -all', 'v=STSv1; id=1;']), '1')
  t.equal(policyId(['v=STSv1; other=x; id=2;']), '2')
  t.equal(policyId(['v=STSv1; id=1;', 'v=STSv1; id=2;']), null)
  for (
    const record of [
      'v=STSv2; id=1;',
      'v=STSv1',
      'v=STSv1;',
      'v=STSv1; id=;',
      'v=STSv1; id=not-so;',
      `v=STSv1; id=${'a'.repeat(33)};`,
      ' v=STSv1; id=1;',
      'v=STSv10; id=1'
    ]
  ) t.equal(policyId([record]), null, record)
  t.equal(policyId([]), null)
})

t.test('RFC 8461 3.2: a policy is read line by line', async t => {
  const text = lines(
    'version: STSv1',
    'mode: enforce',
    'mx: Mail.Example.com',
    'mx: *.example.net',
    'max_age: 604800',
    ''
  )
  const policy = { mode: 'enforce', mx: ['mail.example.com', '*.example.net'], maxAgeS: 604_800 }
  t.same(parsePolicy(text), policy)
  t.same(parsePolicy(text.replaceAll('\r\n', '\n')), policy)
  t.same(
    parsePolicy(`${text}later: word\r\nmode: none\r\n`),
    policy,
    'of what may stand once the first counts; unknown keys do not'
  )
  t.match(parsePolicy(lines('version: STSv1', 'mode: none', 'max_age: 0')), { mode: 'none', mx: [] })
  t.match(parsePolicy(lines('version: STSv1', 'mode: testing', 'mx: a.example', 'max_age: 9999999999')), {
    maxAgeS: 31_557_600
  })
})

t.test('what is no policy', async t => {
  const good = { version: 'STSv1', mode: 'enforce', mx: 'a.example', max_age: '86400' }
  const text = (fields: object) =>
    Object.entries(fields).filter(([, value]) => value !== undefined).map(([key, value]) => `${key}: ${value}`).join(
      '\n'
    )
  t.ok(parsePolicy(text(good)))
  for (const key of Object.keys(good)) t.equal(parsePolicy(text({ ...good, [key]: undefined })), null, `without ${key}`)
  for (
    const wrong of [{ version: 'STSv2' }, { mode: 'strict' }, { max_age: '-1' }, { max_age: '1e9' }, { max_age: '' }]
  ) t.equal(parsePolicy(text({ ...good, ...wrong })), null, JSON.stringify(wrong))
  t.equal(parsePolicy(lines('version: STSv1', 'mode: enforce', 'max_age: 1')), null, 'no host at all')
  t.equal(parsePolicy(''), null)
  t.equal(parsePolicy('<html>not here</html>'), null)
})

t.test('a policy that wants to keep its reader busy is none', async t => {
  const rest = lines('', 'version: STSv1', 'mode: enforce', 'mx: a.example', 'max_age: 1')
  t.ok(parsePolicy(`${' '.repeat(900)}${rest}`))
  for (
    const filler of [' '.repeat(65_000), `a${' '.repeat(65_000)}`, `a:${' '.repeat(65_000)}x`, ':\n'.repeat(30_000)]
  ) t.equal(parsePolicy(filler + rest), null)
})

t.test('a line is cut at its first colon, and blanks around do not count', async t => {
  t.match(
    parsePolicy(lines(' version :STSv1\t', 'mode:\tenforce', 'mx : mx.example.com ', 'max_age:86400', 'note: a: b')),
    { mode: 'enforce', mx: ['mx.example.com'], maxAgeS: 86_400 }
  )
})

t.test('RFC 8461 4.1: a star is one label', async t => {
  const policy = parsePolicy(
    lines('version: STSv1', 'mode: enforce', 'mx: mx.example.com', 'mx: *.pool.example.net', 'max_age: 1')
  )!
  for (const host of ['mx.example.com', 'a.pool.example.net']) t.ok(namesHost(policy, host), host)
  for (
    const host of [
      'a.mx.example.com',
      'example.com',
      'pool.example.net',
      'a.b.pool.example.net',
      'apool.example.net',
      '.pool.example.net.evil',
      'com'
    ]
  ) t.notOk(namesHost(policy, host), host)
})
