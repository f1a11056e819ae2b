import t from 'tap'
import { hasMoreValuesThan } from '#streams/json.ts'

t.test('the values of JSON are counted whatever its texts hold', t => {
  const filler = 'x'.repeat(5000)
  const texts = ['', '"', '\\', '\\"', ',:[{', '"'.repeat(3000), '\\'.repeat(3001), `${filler}"`, `${filler}\\`]
  for (const text of [...texts, ...texts.map(text => filler + text + filler), `${filler}\\","`]) {
    const json = Buffer.from(JSON.stringify([text, { a: text }, 1]))
    // The list, its three, the member and its value: each sign counts once, and the whole once.
    t.equal(hasMoreValuesThan(json, 6), false, `${text.length} characters`)
    t.equal(hasMoreValuesThan(json, 5), true, `${text.length} characters`)
  }
  t.equal(hasMoreValuesThan(Buffer.from(`"${filler}`), 1), false, 'a text without an end')
  t.equal(hasMoreValuesThan(Buffer.from(`"${filler}\\`), 1), false, 'one that ends in the middle of an escape')
  t.end()
})
