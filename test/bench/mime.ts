/** What a message costs before it goes on its way: CPU time of Jetpost's composer and of nodemailer's, for the same
 *  message side by side. */
import MailComposer from 'nodemailer/lib/mail-composer/index.js'
import { trackHtml } from '#src/content/links.ts'
import { composeMessage, type MimeMessage } from '#src/content/mime.ts'
import { textFromHtml } from '#src/content/text.ts'
import type { Bench, BenchContext } from './bench.ts'

const HTML_CHARACTERS = 24 * 1024

/** An order's confirmation: a table of rows with styles, links, and letters beyond ASCII. */
function orderHtml (): string {
  let rows = ''
  for (let i = 0; rows.length < HTML_CHARACTERS - 300; i++) {
    rows += '  <tr>\n    <td style="padding:8px 16px;font-family:Helvetica,Arial,sans-serif;font-size:14px;' +
      `color:#333333" valign="top">Artikel ${i} – größer &amp; besser</td>\n` +
      `    <td align="right"><a href="https://shop.example.com/p/${i}?utm_source=mail&amp;` +
      `utm_medium=email" style="color:#0066cc">Look at it</a> ${i},00 €</td>\n  </tr>\n`
  }
  return '<!doctype html>\n<html>\n<head><title>Order</title><style>p{margin:0}</style></head>\n<body>\n<h1>' +
    `Hello Ada</h1>\n<table role="presentation">\n${rows}</table>\n</body>\n</html>\n`
}

const html = orderHtml()
const text = textFromHtml(html)
const subject = 'Your order – größer & besser'
const unsubscribe = '<https://t.example/u/abcdefghijklmnopqrstuvwxyz>'

function messageOf (i: number, html: string, text: string): MimeMessage {
  const from = { address: 'shop@example.com', name: 'Shop' }
  const recipients = [{ address: `user${i}@example.net`, name: 'Ada', kind: 'to' as const }]
  return {
    messageId: `<em_${i}.0@example.com>`,
    date: '2026-11-21T06:20:00.000Z',
    from,
    recipients,
    replyTo: [],
    subject,
    headers: [{ name: 'List-Unsubscribe', value: unsubscribe }],
    html,
    text,
    attachments: []
  }
}

function byNodemailer (i: number): Promise<Buffer> {
  const composer = new MailComposer({
    messageId: `<em_${i}.0@example.com>`,
    date: new Date('2026-11-21T06:20:00.000Z'),
    from: { name: 'Shop', address: 'shop@example.com' },
    to: { name: 'Ada', address: `user${i}@example.net` },
    subject,
    headers: [{ key: 'List-Unsubscribe', value: unsubscribe }],
    html,
    text
  })
  return composer.compile().build()
}

function tracked (i: number, html: string): string {
  return trackHtml(html, {
    click: (_url, link) => `https://t.example/c/${i}.${link}.abcdefghijklmnopqrstuvwxyz`,
    pixel: `https://t.example/o/${i}.gif`
  })
}

const works: Record<string, (i: number) => unknown> = {
  'Jetpost, html and text given': i => composeMessage(messageOf(i, html, text)),
  'nodemailer, html and text given': byNodemailer,
  'Jetpost, links followed and text made, one html for all': i =>
    composeMessage(messageOf(i, tracked(i, html), textFromHtml(html))),
  'Jetpost, links followed and text made, each its own html': i => {
    const own = html.replace('Ada', `Ada ${i}`)
    return composeMessage(messageOf(i, tracked(i, own), textFromHtml(own)))
  }
}

/** Microseconds of this process for one message. */
async function cpuUs (work: (i: number) => unknown, from: number, messages: number): Promise<number> {
  const before = process.cpuUsage()
  for (let i = from; i < from + messages; i++) await work(i)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / messages
}

export const mime: Bench<'mime'> = {
  about: "CPU to compose a message, beside nodemailer's composer",
  rows: () => ['htmlCharacters', ...Object.keys(works).map(name => `cpuUs.${name}`), 'ratio'],
  run: compare
}

/** The best of some rounds: whatever else the machine does only ever adds. The first of all is there to warm up. */
async function compare ({ sizes, say }: BenchContext<'mime'>): Promise<Record<string, unknown>> {
  const { rounds, messages } = sizes
  const best: Record<string, number> = {}
  for (let round = 0; round <= rounds; round++) {
    for (const [name, work] of Object.entries(works)) {
      const us = await cpuUs(work, round * messages, messages)
      if (round > 0) best[name] = Math.min(best[name] ?? Infinity, us)
    }
  }
  const [ours, theirs] = Object.values(best) as [number, number]
  const ratio = ours / theirs
  say(
    `\nmime: CPU for one message of ${html.length} characters of html and ${text.length} of text, ` +
      `best of ${rounds} × ${messages}`
  )
  for (const [name, us] of Object.entries(best)) say(`  ${us.toFixed(0).padStart(6)} µs  ${name}`)
  say(`  Jetpost's composer takes ${(100 * ratio).toFixed(0)} % of nodemailer's`)
  return {
    htmlCharacters: html.length,
    cpuUs: Object.fromEntries(Object.entries(best).map(([name, us]) => [name, Math.round(us)])),
    ratio: Number(ratio.toFixed(3))
  }
}
