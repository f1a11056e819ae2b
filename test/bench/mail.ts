const HTML_BYTES = 2048
const HTML = `<h1>Hello</h1>${'<p>The quick brown fox jumps over the lazy dog.</p>'.repeat(50)}`.slice(0, HTML_BYTES)

/** A send request with 2 KB of html, tags and metadata; its subject tells it from the others. */
export function mailBody (i: number): string {
  return JSON.stringify({
    from: 'Bench <hello@sandbox.jetpost.test>',
    to: `user${i}@example.com`,
    subject: `bench ${i}`,
    html: HTML,
    tags: ['bench'],
    metadata: { order: i }
  })
}

const ARTICLE = `<tr><td
  style="padding:16px 24px;font-family:Arial,Helvetica,sans-serif;font-size:15px;line-height:22px;color:#333333">
  <h2 style="margin:0 0 8px;font-size:20px">The quick brown fox</h2>
  <p style="margin:0 0 12px">It jumps over the lazy dog, again and again, and nobody knows why – not even the dog.</p>
  <a href="https://shop.example.com/articles/NN?from=newsletter&amp;week=47" style="color:#0a58ca">Read on</a>
</td></tr>
`
const NEWSLETTER_BYTES = 24 * 1024

/** 24 KB of html with tables, styles and about fifty links. */
export function newsletter (): string {
  let rows = ''
  for (let i = 0; rows.length < NEWSLETTER_BYTES - 400; i++) rows += ARTICLE.replace('NN', String(i))
  return '<!doctype html><html><head><meta charset="utf-8"><title>News</title></head><body><table ' +
    `width="600" cellpadding="0" cellspacing="0">\n${rows}</table></body></html>`
}
