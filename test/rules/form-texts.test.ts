import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { formText } from '#src/servers/dashboard/form-texts.ts'

/** Every fault that the API finds: operation, field, code, message. */
const faults = readFileSync(join(import.meta.dirname, '..', 'fixtures', 'messages.txt'), 'utf8').split('\n')
  .flatMap(line => {
    const [, operation, field, , message] = /^(\S+) {2}(.+?) {2}(\S+) {2}(.+)$/.exec(line) ?? []
    return field === undefined || /^\d+$/.test(field) ? [] : [{ operation, field, message: message! }]
  })

t.test('forms call a field what they call it, and an entry by its number', async t => {
  const cases: Array<[field: string, message: string, text: string]> = [
    ['to[1]', 'to[1] must be an email address.', 'To (entry 2) must be an email address.'],
    ['reply_to', 'reply_to must have at most 10 addresses.', 'Reply-To must have at most 10 addresses.'],
    ['attachments[0].filename', 'filename is required.', 'Attachments (entry 1) filename is required.'],
    ['html', 'html, text or template_id is required.', 'HTML, text or a template is required.'],
    ['variables.first_name', 'variables.first_name is required.', 'Variable first_name is required.'],
    ['scheduled_at', 'scheduled_at must not be in the past.', 'Send at must not be in the past.'],
    ['batch.max_events', 'batch.max_events must be a whole number.', 'Events per request must be a whole number.'],
    [
      'start_at',
      'start_at must be a time with an offset, like 2026-11-21T12:00:00Z.',
      'Send events since must be a time in UTC, such as 2026-11-21T12:00.'
    ]
  ]
  for (const [field, message, text] of cases) t.equal(formText({ field, message }), text)
})

t.test('no fault is told in the words of the API', async t => {
  t.ok(faults.length > 200, 'the list is read')
  const left = faults.filter(({ field, message }) => {
    const text = formText({ field, message })
    return /\b[a-z]+_[a-z]+\b|\[\d+\]|`|\ba string\b|\ban? (JSON )?object\b|with an offset|query parameter/.test(
      text
    ) ||
      !/^[A-Z]/.test(text)
  })
  t.strictSame(left.map(fault => `${fault.operation} ${fault.field}: ${formText(fault)}`), [])
})
