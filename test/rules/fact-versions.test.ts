import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import packageJson from '../../package.json' with { type: 'json' }
import { decodeFact, encodeFact, factTypes } from '#streams/catalog.ts'

const FOLDER = join(import.meta.dirname, '..', 'fixtures', 'facts')
const read = (type: string, version: number) => readFileSync(join(FOLDER, `${type}.v${version}.json`))
const every = factTypes.flatMap(({ name, version }) =>
  Array.from({ length: version }, (_, i) => ({ name, version: i + 1, present: version }))
)

const RECIPIENT = { email: 'em_01m7ysevjmwmdcr41jq5rymhkp', n: 0, request: 7, to: 'ada@example.net', sequence: 2 }

/** What facts of older versions are read as, word for word: data that an upcast may never come to read otherwise. */
const READ_AS: Record<string, object> = {
  'session.link_made.v1': {
    session: 'ses_1',
    principal: 'key_1',
    hash: 'a'.repeat(64),
    until: '2026-11-23T10:15:00.000Z'
  },
  'session.opened.v1': {
    session: 'ses_1',
    principal: 'key_1',
    hash: 'a'.repeat(64),
    until: '2026-12-06T10:00:00.000Z'
  },
  'email.requested.v1': JSON.parse(read('email.requested', 1).toString()).data,
  'email.requested.v2': JSON.parse(read('email.requested', 2).toString()).data,
  'email.recorded.v1': JSON.parse(read('email.recorded', 1).toString()).data,
  'email.suppressed.v1': { ...RECIPIENT, from: '', tags: [], reason: 'bounce' },
  'email.canceled.v1': { ...RECIPIENT, from: '', tags: [] },
  'email.opened.v1': {
    ...RECIPIENT,
    machine: false,
    first: false,
    event: '{"id":"ev_x","type":"email.opened","created_at":"2026-11-21T10:00:02.000Z",' +
      '"data":{"email_id":"em_01m7ysevjmwmdcr41jq5rymhkp","from":"hello@example.com",' +
      '"to":"ada@example.net","subject":"Your ' +
      'order","machine":false,"tags":["orders"],"metadata":{"order":77},' +
      '"message_id":"<em_01m7ysevjmwmdcr41jq5rymhkp.0@example.com>",' +
      '"sequence":2,"template_id":null}}'
  },
  'email.clicked.v1': {
    ...RECIPIENT,
    url: 'https://shop.example/orders/77',
    machine: false,
    first: false,
    event: '{"id":"ev_x","type":"email.clicked","created_at":"2026-11-21T10:00:02.000Z",' +
      '"data":{"email_id":"em_01m7ysevjmwmdcr41jq5rymhkp","from":"hello@example.com",' +
      '"to":"ada@example.net","subject":"Your ' +
      'order","click":{"url":"https://shop.example/orders/77"},"machine":false,"tags":["orders"],' +
      '"metadata":{"order":77},' +
      '"message_id":"<em_01m7ysevjmwmdcr41jq5rymhkp.0@example.com>","sequence":2,"template_id":null}}'
  }
}

t.test('every version of every fact that was ever written has a fixture, and each fixture is of one', async t => {
  t.strictSame(readdirSync(FOLDER).sort(), every.map(({ name, version }) => `${name}.v${version}.json`).sort())
  t.strictSame(
    every.filter(({ version, present }) => version < present).map(({ name, version }) => `${name}.v${version}`).sort(),
    Object.keys(READ_AS).sort(),
    'what old ones are read as is written here'
  )
})

t.test('every version is read for ever', async t => {
  for (const { name, version, present } of every) {
    const stored = JSON.parse(read(name, version).toString())
    t.match(stored, { type: name, version }, `${name}.v${version} is what its name says`)
    const expected = version === present
      ? stored
      : { ...stored, version: present, data: READ_AS[`${name}.v${version}`] }
    t.strictSame(decodeFact(read(name, version)), expected, `${name}.v${version}`)
  }
})

/** `sha256sum *.json` of the fixtures, as a version was released with them: `facts-0.1.0.sha256`. */
const RELEASES = join(FOLDER, '..')

t.test('what a released version has written stays here as it was', async t => {
  const releases = readdirSync(RELEASES).filter(name => /^facts-\d+\.\d+\.\d+\.sha256$/.test(name))
  t.ok(releases.includes(`facts-${packageJson.version}.sha256`), 'this version is among them')
  for (const release of releases) {
    const lines = readFileSync(join(RELEASES, release), 'utf8').trim().split('\n')
    t.ok(lines.length > 80, `${release} has ${lines.length} facts`)
    const changed = lines.filter(line => {
      const [sum, name] = line.split('  ')
      const path = join(FOLDER, name!)
      return !existsSync(path) || createHash('sha256').update(readFileSync(path)).digest('hex') !== sum
    })
    t.strictSame(changed, [], `${release}: a fact that looks otherwise is a new version of it`)
  }
})

t.test('what is written is of the present version', async t => {
  for (const { name, version, present } of every) {
    const stored = JSON.parse(read(name, version).toString())
    if (version === present) t.strictSame(JSON.parse(new TextDecoder().decode(encodeFact(stored))), stored, name)
    else {t.throws(
        () => encodeFact(stored),
        new RegExp(`${name} does not fit its schema at /version`),
        `${name}.v${version}`
      )}
  }
})

t.test('a version of tomorrow is refused with a sentence, and so is none at all', async t => {
  for (const { name, version } of factTypes) {
    const stored = JSON.parse(read(name, version).toString())
    const decode = (given: unknown) => () =>
      decodeFact(new TextEncoder().encode(JSON.stringify({ ...stored, version: given })))
    t.throws(decode(version + 1), {
      message: `${name} has version ${version + 1}, and this Jetpost knows ${version}: it was written by a newer one`
    })
    for (const none of [0, -1, 1.5, '1', null]) {
      t.throws(decode(none), new RegExp(`${name} does not fit its schema at /version`), `${name} version ${none}`)
    }
  }
})
