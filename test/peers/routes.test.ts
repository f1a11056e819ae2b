import t from 'tap'
import { ANY_MAIL, routeOf, sourceOf } from '../support/routes.ts'
import { postfixMissing, startPostfix } from '../support/postfix.ts'
import { openRig } from '../support/sender-rig.ts'
import { until } from '../support/wait.ts'

t.test('a route to Postfix from a source of its own, beside SMTP_URL', { skip: postfixMissing() }, async t => {
  const postfix = await startPostfix(t, { bounces: { domain: 'bounces.example.org', port: 9 }, users: ['ada'] })
  const rig = await openRig(t, {
    routes: [routeOf('postfix', {
      url: `smtp://127.0.0.1:${postfix.port}`,
      match: { ...ANY_MAIL, recipientDomains: ['peer.test'] },
      sources: [sourceOf('127.0.0.7', { hostname: 'seven.example.org' })]
    })]
  })
  const emails = [await rig.ask('ada@peer.test'), await rig.ask('bob@example.net')]
  const [mail] = await postfix.filed('ada', 1)
  t.match(
    mail!.toString(),
    /Received: from seven\.example\.org \(unknown \[127\.0\.0\.7\]\)|seven\.example\.org.{0,40}127\.0\.0\.7/s
  )
  await until(() => rig.sink.received.length === 1)
  t.match((await rig.told(emails[0]!, ['attempted', 'delivered'])).at(-1)!.data, {
    route: 'postfix',
    source: '127.0.0.7'
  })
})
