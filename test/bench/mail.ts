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
