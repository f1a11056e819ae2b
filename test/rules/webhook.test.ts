import t from 'tap'
import { countFault, eventsFault, urlFault, WEBHOOKS_MAX } from '#streams/webhook/decide.ts'

t.test('a URL is absolute, https, and carries no credentials', async t => {
  for (const url of ['https://example.com', 'https://example.com:8443/hooks?tenant=7#x', `https://example.com/${'a'.repeat(2028)}`]) t.equal(urlFault(url, false), null, url.slice(0, 50))
  for (const url of [
    '', 'example.com', '/hooks', 'ftp://example.com', 'javascript:alert(1)', 'file:///etc/passwd', 'http://example.com', 'https://', 'https://user@example.com', 'https://user:pw@example.com',
    'https://:pw@example.com', ' https://example.com', 'https://example.com\n', `https://example.com/${'a'.repeat(2029)}`
  ]) t.equal(urlFault(url, false)?.code, 'invalid_url', JSON.stringify(url.slice(0, 50)))
})

t.test('http only where private targets are allowed', async t => {
  t.equal(urlFault('http://localhost:3000/hooks', true), null)
  t.equal(urlFault('https://example.com', true), null)
  for (const url of ['ftp://example.com', 'http://user@localhost']) t.equal(urlFault(url, true)?.code, 'invalid_url')
})

t.test('6.1 an endpoint subscribes to any subset of the types', async t => {
  t.equal(eventsFault(['email.delivered', 'email.bounced', 'email.opened', 'email.clicked', 'email.complained', 'email.unsubscribed']), null)
  t.equal(eventsFault(['email.clicked']), null)
  for (const events of [[], ['email.sent'], ['email.clicked', 'email.clicked'], ['*']]) t.equal(eventsFault(events)?.code, 'invalid_events', events.join())
})

t.test('an account has a bounded number of endpoints', async t => {
  t.equal(countFault(WEBHOOKS_MAX - 1), null)
  t.equal(countFault(WEBHOOKS_MAX)?.code, 'too_many_webhooks')
})
