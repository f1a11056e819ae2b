import t from 'tap'
import { withRelayField } from '#src/content/relay-field.ts'
import { readBrevo } from '#src/feedback/relays/brevo.ts'
import { readPostmark } from '#src/feedback/relays/postmark.ts'
import { readSendgrid } from '#src/feedback/relays/sendgrid.ts'

const NAME = 'em_01m7ysevjmwmdcr41jq5rymhkp.0'
const MESSAGE = Buffer.from('Subject: Hello\r\n\r\nHello\r\n')
const fieldFor = (host: string) => {
  const message = withRelayField(MESSAGE, host, `<${NAME}@shop.example>`)
  t.ok(message.subarray(-MESSAGE.length).equals(MESSAGE), 'the message itself stays')
  return message.subarray(0, -MESSAGE.length).toString()
}
const valueOf = (field: string) => field.slice(field.indexOf(': ') + 2).trimEnd()

t.test('what a relay is given to hand back is what its reports are read for', async t => {
  const postmark = fieldFor('smtp.postmarkapp.com')
  t.match(postmark, /^X-PM-Metadata-jetpost: \S+\r\n$/)
  const bounce = { RecordType: 'Bounce', Type: 'HardBounce', Metadata: { jetpost: valueOf(postmark) } }
  t.match(readPostmark(bounce), [{ messageIds: [NAME] }])

  const sendgrid = fieldFor('smtp.sendgrid.net')
  t.match(sendgrid, /^X-SMTPAPI: \{.+\}\r\n$/)
  const { unique_args: args } = JSON.parse(valueOf(sendgrid))
  t.match(readSendgrid([{ event: 'bounce', ...args }]), [{ messageIds: [NAME] }])

  const brevo = fieldFor('smtp-relay.brevo.com')
  t.match(readBrevo({ event: 'hard_bounce', 'X-Mailin-custom': valueOf(brevo) }), [{ messageIds: [NAME] }])
})

t.test('nobody else is given anything', async t => {
  for (const host of ['relay.example.com', 'postmarkapp.com.example', 'notsendgrid.net', '127.0.0.1']) {
    t.equal(fieldFor(host), '', host)
  }
})
