import { html, type Html, type Value } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { badge, copyable, exact, detailList, number, table } from '../parts.ts'
import { shownAddress, tagsOf } from './email-format.ts'

/** The request, beside content and recipients. */
export function detailsTab (email: Email): Html {
  const { headers, attachments, metadata, timeline } = email
  const messageIds = [
    ...new Map(
      timeline.flatMap(({ message_id: id, recipient }) => (id === undefined ? [] : [[id, recipient ?? ''] as const]))
    ).entries()
  ]
  return html`<section class="card" aria-labelledby="request-title"><h2 id="request-title">Request</h2>${
    detailList(requestDetails(email))
  }</section>
${
    listed('Metadata', Object.entries(metadata), [
      { name: 'Name', cell: ([name]) => html`<code>${name}</code>` },
      { name: 'Value', kind: 'wide', cell: ([, value]) => html`<code>${JSON.stringify(value)}</code>` }
    ])
  }
${
    listed('Custom headers', headers, [
      { name: 'Name', cell: ({ name }) => html`<code>${name}</code>` },
      { name: 'Value', kind: 'wide', cell: ({ value }) => html`<code>${value}</code>` }
    ])
  }
${
    listed('Attachments', attachments, [
      { name: 'Name', kind: 'wide', cell: ({ filename }) => filename },
      {
        name: 'Type',
        cell: ({ content_type: type, content_id: id }) =>
          html`${type}${id !== null && html` <span class="hint">cid:${id}</span>`}`
      },
      { name: 'Bytes', kind: 'num', cell: ({ size_bytes: size }) => number(size) }
    ])
  }
${
    listed('Message-IDs', messageIds, [
      { name: 'Message-ID', kind: 'wide', cell: ([id]) => copyable(id, 'Copy the Message-ID') },
      { name: 'Recipient', cell: ([, address]) => shownAddress(address) }
    ])
  }`
}

function requestDetails (email: Email): Array<[string, Value] | null> {
  const {
    key_id: key,
    template,
    tags,
    track,
    unsubscribe,
    reply_to: replyTo,
    created_at: at,
    scheduled_at: scheduledAt,
    test
  } = email
  return [
    ['Accepted', exact(at)],
    scheduledAt === null ? null : ['Scheduled for', exact(scheduledAt)],
    ['Key', html`<a href="/dashboard/keys/${key}"><code>${key}</code></a>${test && html` ${badge('test')}`}`],
    template === null
      ? null
      : [
        'Template',
        html`<a href="/dashboard/templates/${template.id}"><code>${template.id}</code></a> version ${template.version}`
      ],
    replyTo.length === 0 ? null : ['Reply to', replyTo.map(shownAddress).join(', ')],
    ['Tags', tags.length === 0 ? '–' : tagsOf(tags, tags.length)],
    ['Tracking', [track.opens && 'opens', track.clicks && 'clicks'].filter(Boolean).join(' and ') || 'off'],
    ['Unsubscribe link', unsubscribe ? 'yes' : 'no']
  ]
}

/** A table; null without rows. */
function listed<Row> (title: string, rows: Row[], columns: Parameters<typeof table<Row>>[1]): Html | null {
  return rows.length === 0
    ? null
    : html`<section class="card"><h2>${title}</h2>${table(title, columns, rows)}</section>`
}
