import t from 'tap'
import { isPublic } from '#src/dns/guard.ts'
import { createPoster } from '#src/out/webhooks/post.ts'

t.test('only addresses of the public internet may be called', async t => {
  for (const address of ['8.8.8.8', '1.1.1.1', '172.15.0.1', '172.32.0.1', '2001:4860:4860::8888', '2a00:1450::1', '::ffff:8.8.8.8']) t.equal(isPublic(address), true, address)
  for (const address of [
    '0.0.0.0', '10.0.0.1', '100.64.0.1', '127.0.0.1', '127.255.255.254', '169.254.169.254', '172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.88.99.1', '192.168.0.1',
    '198.18.0.1', '198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255', '::', '::1', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::127.0.0.1',
    '64:ff9b::7f00:1', '64:ff9b::808:808', '64:ff9b:1::1', '100::1', '2001::1', '2001:db8::1', '2001:10::1', '2002:7f00:1::', '2002:808:808::1', '3fff::1', '4000::1', '5f00::1', 'fc00::1',
    'fd00:ec2::254', 'fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1', '::ffff:0:127.0.0.1', '2001:4860::5efe:7f00:1', '2001:4860::200:5efe:7f00:1', 'localhost', ''
  ]) t.equal(isPublic(address), false, address)
})

t.test('a target is refused however it is written', async t => {
  const poster = createPoster({ allowPrivate: false, timeoutMs: 3000 })
  t.teardown(() => poster.close())
  for (const host of ['127.0.0.1', '127.1', '0x7f.1', '0177.0.0.1', '2130706433', '１２７.０.０.１', '[::1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]', '169.254.169.254', 'localhost']) {
    const answer = await poster.post(new URL(`http://${host}:9/`), {}, Buffer.from('{}'))
    t.match(answer, { status: null, error: /^target refused: / }, host)
  }
})
