import t from 'tap'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import type { OpenServers } from './bench.ts'
import { benches, helpText, runBench } from './benches.ts'
import { sizesOf, wrongSetting, type BenchName } from './settings.ts'
import { printSize } from './size.ts'

/** The least with which each bench still runs, about a thousandth of its size. */
const SMALL = { JETPOST_BENCH_SCALE: '0.0001' }

// They wait as much as they work.
t.jobs = 2

for (const name of Object.keys(benches) as BenchName[]) {
  t.test(`the bench ${name} finds all that it promises`, { buffered: true }, async t => {
    /** The servers of the suite: what they use is not counted. */
    const openServers: OpenServers = async ({ postgres = true } = {}) => ({
      ...freshAccount(),
      databaseUrl: postgres ? await freshDatabase(t) : '',
      natsPid: null,
      postgresPid: null,
      stop: async () => {}
    })
    const lines: string[] = []
    const record = await runBench(name, { env: SMALL, openServers, say: line => void lines.push(line) })
    const figures = figuresIn(record)
    const rows = rowsOf(name)
    const holds = (row: string, path: string) => path === row || path.startsWith(`${row}.`)
    t.strictSame(rows.filter(row => !figures.some(([path]) => holds(row, path))), [], 'rows without a figure')
    t.strictSame(
      figures.filter(([path]) => !rows.some(row => holds(row, path))).map(([path]) => path),
      [],
      'figures without a row'
    )
    t.strictSame(figures.filter(([, value]) => !Number.isFinite(value)), [], 'figures that are no numbers')
    t.ok(lines.length > 0, 'and prints')
  })
}

function rowsOf<Name extends BenchName> (name: Name): readonly string[] {
  return benches[name].rows(sizesOf(name, SMALL))
}

t.test('a setting that there is not is refused with the nearest, and so is what is no number', async t => {
  t.equal(wrongSetting({ JETPOST_BENCH_EMAILS: '1000', JETPOST_BENCH_SCALE: '0.5', JETPOST_LOG_LEVEL: 'info' }), null)
  t.equal(
    wrongSetting({ JETPOST_BENCH_EMIALS: '1000' }),
    'There is no setting JETPOST_BENCH_EMIALS. Did you mean JETPOST_BENCH_EMAILS?'
  )
  for (const value of ['', '0', '-1', 'many', 'Infinity']) {
    t.equal(wrongSetting({ JETPOST_BENCH_TRIES: value }), 'JETPOST_BENCH_TRIES must be a number above 0.', value)
  }
})

t.test('sizes are what is set, else a part of the default, and never less than a bench needs', async t => {
  t.equal(sizesOf('lists', {}).emails, 1_000_000)
  t.equal(sizesOf('lists', { JETPOST_BENCH_SCALE: '0.1' }).emails, 100_000)
  t.equal(sizesOf('lists', { JETPOST_BENCH_SCALE: '0.1', JETPOST_BENCH_EMAILS: '7' }).emails, 7)
  t.strictSame(sizesOf('dashboard', SMALL), { emails: 200, pages: 4, tries: 1 })
})

t.test('the help names each bench and each setting with its default', async t => {
  const help = helpText([['size', 'how big it is']])
  for (const name of [...Object.keys(benches), 'size']) t.match(help, `  ${name} `)
  t.match(help, /JETPOST_BENCH_EMAILS\n.+\n.+ lists 1,000,000/)
  t.match(help, /JETPOST_BENCH_PER_S\n.+\n.+ rebuild 200, webhook-isolation 500/)
})

t.test('the size of code is counted by module, in tokens', async t => {
  const root = t.testdir({
    src: {
      base: {
        // 21 tokens: the expression is one, and so are `x${ and }y`.
        'one.ts': 'const short = (a: number) => /[)}`]/g.test(`x${a}y`) && a >= 1 // not a token\n',
        // 113 tokens.
        'two.js': `class Two {\n  method () {\n    return [${'1, '.repeat(50)}1]\n  }\n}\n`
      },
      client: { 'types.ts': 'export interface Made { id: string }\n' },
      feedback: { phrases: { 'signs.txt': 'no such user\n' } }
    }
  })
  const lines: string[] = []
  printSize(line => void lines.push(line), root)
  const rowOf = (name: string) => lines.find(line => line.startsWith(`  ${name} `))?.slice(name.length + 2).trim()
  t.match(rowOf('src/base'), /^134 +6 +2 +2 +1$/)
  t.match(rowOf('src/client, generated'), /^8 +1 +1 +1 +0$/)
  t.match(rowOf('src/feedback/phrases, words'), /^3 +1 +1 +1 +0$/)
  t.match(rowOf('method'), /^3 +src\/base\/two\.js:2$/)
  t.match(rowOf('short'), /^1 +src\/base\/one\.ts:1$/)
})

/** Every number of a record with the way to it; null stands for what there cannot be. */
function figuresIn (record: object, path = ''): Array<[string, unknown]> {
  return Object.entries(record).flatMap(([name, value]) => {
    if (value === null) return []
    return typeof value === 'object' ? figuresIn(value, `${path}${name}.`) : [[`${path}${name}`, value]]
  }) as Array<[string, unknown]>
}
