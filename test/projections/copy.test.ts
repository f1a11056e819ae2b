import t from 'tap'
import { deliveries } from '#projections/deliveries/project.ts'
import type { Projection } from '#projections/define.ts'
import { emails } from '#projections/emails/project.ts'
import { commitAlone } from '#src/workers/projector/commit.ts'
import { createWriter, type StreamItem } from '#src/workers/projector/write.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import type { AnyFact } from '#streams/catalog.ts'
import {
  bounced,
  deferred,
  delivered,
  deliveryAttempted,
  deliveryRequested,
  opened,
  recorded,
  requested
} from '../support/facts.ts'
import { allRows, clear, cut, freshPool, randomOf } from './view.ts'

/** What a line of COPY, an array and JSON each have a meaning for, and what PostgreSQL does not store. */
const STRANGE = [
  '',
  '\\',
  '\\N',
  '\\.',
  'a\tb',
  'a\nb\r\nc',
  '"quoted"',
  '{a,b}',
  'NULL',
  'null',
  "it's",
  'nul\0in it',
  'half \ud800 pair',
  '😀',
  '\\n\\t',
  '\u2028',
  '{"a":1}',
  '\\"'
]

function itemsOf (stream: string, facts: AnyFact[]): StreamItem[] {
  return recorded(facts).map(item => ({ stream, reason: '', ...item }))
}

async function write (pool: Pool, projection: Projection, chunks: StreamItem[][], copies: boolean): Promise<void> {
  const writer = createWriter({
    commit: commitAlone(pool),
    set: liveSet(projection),
    copies,
    move: async () => true,
    onDeadLetter: ({ subject }, reason) => t.fail(`${subject} is dead-lettered: ${reason}`)
  })
  for (const chunk of chunks) await writer.write(chunk, { REQUESTS: 0, EMAILS: 0, WEBHOOKS: 0 })
}

t.test('rows that come by COPY are those that come as JSON', async t => {
  const pool = await freshPool(t)
  const requests = STRANGE.map((text, i) =>
    requested({
      email: `em_${i}`,
      subject: text,
      from: { address: 'news@example.com', name: text },
      recipients: [{ address: 'ada@example.net', name: text, kind: 'to' }, {
        address: 'bob@example.net',
        name: null,
        kind: 'bcc'
      }],
      tags: [text, 'plain', ''],
      headers: [{ name: 'X-Strange', value: text }],
      metadata: { [text]: text, number: 1.5, yes: true, nothing: null },
      attachments: [{ filename: text, contentType: 'text/plain', contentId: null, sizeBytes: 3 }]
    })
  )
  const outcomes = STRANGE.flatMap((text, i) => [
    deferred({ email: `em_${i}`, reply: { code: 451, enhanced: null, text } }),
    i % 2 === 0
      ? delivered({ email: `em_${i}`, reply: { code: 250, enhanced: '2.0.0', text } })
      : bounced({ email: `em_${i}`, error: text, reply: null, status: null }),
    opened({ email: `em_${i}`, n: 1 })
  ])
  const items = [...itemsOf('REQUESTS', requests), ...itemsOf('EMAILS', outcomes)]
  await write(pool, emails, [items], false)
  const expected = await allRows(pool, 'emails')
  t.equal(expected.timeline!.length, outcomes.length)
  for (const seed of [1, 2, 3]) {
    await clear(pool, 'emails')
    await write(pool, emails, cut(items, 30, randomOf(seed)), true)
    t.strictSame(await allRows(pool, 'emails'), expected, 'whatever the chunks are')
  }
  await write(pool, emails, [items], true)
  t.strictSame(await allRows(pool, 'emails'), expected, 'also where they are there already')
})

t.test('arrays of numbers and rows that change come by COPY too', async t => {
  const pool = await freshPool(t)
  const facts = STRANGE.flatMap((text, i) => [
    deliveryRequested({
      delivery: `whd_${i}`,
      batch: true,
      events: [1, 2].map(n => ({ id: `ev_${i}x${n}`, type: 'email.delivered', email: 'em_1', seq: n }))
    }),
    deliveryAttempted({
      delivery: `whd_${i}`,
      response: text,
      request: { url: 'https://example.com/hooks', headers: { 'x-strange': text } }
    })
  ])
  const items = itemsOf('WEBHOOKS', facts)
  await write(pool, deliveries, [items], false)
  const expected = await allRows(pool, 'deliveries')
  t.equal(expected.delivery_attempts!.length, STRANGE.length)
  await clear(pool, 'deliveries')
  await write(pool, deliveries, cut(items, 7, randomOf(4)), true)
  t.strictSame(await allRows(pool, 'deliveries'), expected)
})
