import t from 'tap'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { projections } from '#projections/list.ts'
import type { Projection } from '#projections/define.ts'
import { fingerprintOf, liveSet } from '#src/postgres/table-sets.ts'

const FILE = join(import.meta.dirname, '..', 'fixtures', 'table-sets.json')

t.test('changed tables are another version: else processes of both would rebuild them in turns', async t => {
  const known = JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, string>
  const present = await Promise.all(
    Object.values<Projection>(projections).map(async projection =>
      [liveSet(projection).schema, await fingerprintOf(liveSet(projection))] as const
    )
  )
  if (process.env.JETPOST_TEST_TABLE_SETS === 'write') {
    writeFileSync(FILE, `${JSON.stringify({ ...known, ...Object.fromEntries(present) }, null, 2)}\n`)
  }
  for (const [schema, fingerprint] of present) {
    t.equal(
      known[schema],
      fingerprint,
      `${schema}: raise its version, then JETPOST_TEST_TABLE_SETS=write npx tap run test/projections/versions.test.ts`
    )
  }
})
