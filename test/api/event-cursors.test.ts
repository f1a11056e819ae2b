import t from 'tap'
import { createTokens } from '#src/content/token.ts'
import { cursorsOf } from '#src/servers/api/event-stream.ts'

const tokens = createTokens('a-secret-for-tests-with-at-least-32-characters')
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

t.test('a cursor is the same on every node, and tells an account nothing about how much happens in others', async t => {
  const own = cursorsOf(tokens, 'acc_first')
  const others = [
    cursorsOf(tokens, 'acc_other'),
    cursorsOf(createTokens('another-secret-with-at-least-32-characters'), 'acc_first')
  ]
  const places = [0, 1, 2, 255, 256, 1042, 1043, 2 ** 32, Number.MAX_SAFE_INTEGER]
  for (const seq of places) {
    const cursor = own.cursorOf(seq)
    t.match(cursor, /^[\w-]{22}$/)
    t.equal(own.cursorOf(seq), cursor)
    t.equal(own.parseCursor(cursor), seq)
    for (const other of others) {
      t.not(other.cursorOf(seq), cursor)
      t.equal(other.parseCursor(cursor), null)
    }
    const bytes = Buffer.from(cursor, 'base64url')
    for (let bit = 0; bit < 128; bit++) {
      const changed = Buffer.from(bytes)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      if (own.parseCursor(changed.toString('base64url')) !== null) t.fail(`${seq} with bit ${bit} changed`)
    }
    const spelt = [
      `${cursor}=`,
      `${cursor}==`,
      ` ${cursor}`,
      cursor.slice(0, -1),
      `${cursor}A`,
      ...[1, 2, 3].map(more => cursor.slice(0, -1) + ALPHABET[ALPHABET.indexOf(cursor.at(-1)!) + more])
    ]
    for (const text of spelt) t.equal(own.parseCursor(text), null, `${text} is another spelling at best`)
  }
  const ring = cursorsOf(createTokens('b'.repeat(32), 'a'.repeat(32)), 'acc_first')
  t.equal(ring.parseCursor('5XjS1jAnwZv1ARjdb0n1sA'), 1042, 'of the older secret, from before there were rings')
  t.equal(ring.cursorOf(1042), cursorsOf(createTokens('b'.repeat(32)), 'acc_first').cursorOf(1042))
  t.equal(ring.parseCursor(ring.cursorOf(1042)), 1042)
  t.equal(cursorsOf(createTokens('b'.repeat(32)), 'acc_first').parseCursor('5XjS1jAnwZv1ARjdb0n1sA'), null)
  const bytes = places.map(seq => Buffer.from(own.cursorOf(seq), 'base64url'))
  for (const [i, a] of bytes.entries()) {
    for (const b of bytes.slice(0, i)) {
      t.ok(a.filter((byte, at) => byte === b[at]).length <= 3, 'neighbours have nothing in common')
    }
  }
})
