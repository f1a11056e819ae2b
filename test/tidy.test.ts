import { globSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')

/** The app from the ground up: imports go down, and modules of one floor do not know each other. See
 *  docs/architecture.md. */
const floors = [
  ['src/base', 'src/client', 'streams'],
  ['projections'],
  ['src/nats', 'src/postgres', 'src/dns', 'src/content', 'src/feedback', 'src/embedded'],
  ['src/actions'],
  [
    'src/workers/sender',
    'src/workers/webhooks',
    'src/workers/projector',
    'src/workers/scheduler',
    'src/workers/inbound',
    'src/workers/reactions'
  ],
  ['src/operations'],
  [
    'src/servers/api',
    'src/servers/mailbox',
    'src/servers/dashboard',
    'src/servers/ops',
    'src/servers/inbound-smtp',
    'src/servers/submission',
    'src/servers/tracking'
  ],
  ['src/http.ts'],
  ['src/app'],
  ['src/main.ts'],
  ['src/cli'],
  ['src/bin.js'],
  ['test']
]

/** What Jetpost is shipped with. Each may be used in any product whose maker names its authors, if anybody. */
const LICENCES = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'ISC',
  'MIT',
  'MIT-0',
  'Unlicense'
])

/** Which packages the pure modules may use; `node:` counts as one. */
const pure: Record<string, string[]> = {
  streams: ['@sinclair/typebox'],
  projections: ['@sinclair/typebox'],
  'src/client': [],
  'src/content': ['node:crypto', 'html-to-text', 'parse5', 'postal-mime'],
  // It reads its own phrases, once, as it is loaded.
  'src/feedback': ['node:fs', 'node:path', 'postal-mime']
}

/** Read by a person in the editor's hints; see test/support/client-generator.ts. */
const generated = /^src\/client\/types\.ts$/

const WIDTH_MAX = 120
/** One server's reply a line. */
const corpora = /^test\/fixtures\/replies-[\w-]+\.ts$/

/** Started from outside by name, so nobody needs to import them. */
const entries = [
  /^src\/bin\.js$/,
  /\.test\.ts$/,
  /^test\/schemathesis\/run\.ts$/,
  /^test\/support\/(up|down|keeper|prepare|format|embedded-child|.*-child)\.(ts|js)$/,
  /^test\/(bench|groups)\//,
  /^src\/servers\/dashboard\/assets\//
]

/** A statement that imports, or the last line of one, or an import() amid code; not the words in a string. */
const IMPORT = /^(?:import|export|\})[^'\n]*\bfrom\s*'([^'\n]+)'|(?:^|[=(\s])import\s*\(?\s*'([^'\n]+)'/gm

interface Source {
  path: string
  text: string
  imports: string[]
}

const sources = ['streams', 'projections', 'src', 'test'].flatMap(list).map(read)
const paths = new Set(sources.map(source => source.path))

function list (folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && /\.(ts|js)$/.test(entry.name))
    .map(entry => relative(root, join(entry.parentPath, entry.name)))
}

function read (path: string): Source {
  const text = readFileSync(join(root, path), 'utf8')
  const imports = [...text.matchAll(IMPORT)].map(match => resolve(path, (match[1] ?? match[2])!))
  return { path, text, imports }
}

/** Our own files as paths from the root, packages as their names. */
function resolve (from: string, name: string): string {
  if (name.startsWith('#')) return name.slice(1)
  return name.startsWith('.') ? normalize(join(dirname(from), name)) : name
}

/** Files that stand in src itself are modules of their own; these belong to another. */
const lodgers: Record<string, string> = {
  'src/cli.ts': 'src/cli',
  'src/node-version.js': 'src/bin.js',
  'src/strip-types.js': 'src/bin.js'
}

function roomOf (path: string): string {
  const parts = path.split('/')
  if (parts[0] !== 'src') return parts[0]!
  if (parts.length === 2) return lodgers[path] ?? path
  return parts.slice(0, parts[1] === 'servers' || parts[1] === 'workers' ? 3 : 2).join('/')
}

const floorOf = (module: string): number => floors.findIndex(modules => modules.includes(module))

t.test('every module has its floor', async t => {
  const unknown = [...new Set(sources.map(source => roomOf(source.path)))].filter(module => floorOf(module) === -1)
  t.strictSame(unknown, [], 'modules that are not in the plan of the code')
})

t.test('arrows point one way', async t => {
  const wrong = sources.flatMap(({ path, imports }) =>
    imports
      .filter(target =>
        paths.has(target) && roomOf(target) !== roomOf(path) && floorOf(roomOf(target)) >= floorOf(roomOf(path))
      )
      .map(target => `${path} → ${target}`)
  )
  t.strictSame(wrong, [])
})

t.test('servers and workers meet in facts, and in operations', async t => {
  const wrong = sources.flatMap(({ path, imports }) =>
    imports.filter(target => path.startsWith('src/servers/') && target.startsWith('src/workers/'))
      .map(target => `${path} → ${target}`)
  )
  t.strictSame(wrong, [])
})

t.test('crossing a module is visible in the import', async t => {
  // The files that stand in src itself (main, http, cli) are neighbours, and so are a test's.
  const inRooms = sources.filter(({ path }) => !path.startsWith('test/') && !/^src\/[^/]+$/.test(path))
  const hidden = inRooms.flatMap(({ path, text }) =>
    [...text.matchAll(IMPORT)].map(match => (match[1] ?? match[2])!)
      .filter(name => {
        const target = resolve(path, name)
        return name.startsWith('.') && paths.has(target) && roomOf(target) !== roomOf(path)
      })
      .map(name => `${path}: ${name}`)
  )
  t.strictSame(hidden, [])
})

t.test('every import of ours leads to a file', async t => {
  const lost = sources.flatMap(({ path, imports }) =>
    imports.filter(target => /^(streams|projections|src|test)\//.test(target) && !paths.has(target)).map(target =>
      `${path} → ${target}`
    )
  )
  t.strictSame(lost, [])
})

t.test('there is no import ring', async t => {
  const imports = new Map(sources.map(({ path, imports }) => [path, imports.filter(target => paths.has(target))]))
  const done = new Set<string>()
  const rings: string[] = []
  const walk = (path: string, trail: string[]): void => {
    if (trail.includes(path)) return void rings.push([...trail.slice(trail.indexOf(path)), path].join(' → '))
    if (done.has(path)) return
    for (const target of imports.get(path)!) walk(target, [...trail, path])
    done.add(path)
  }
  for (const path of paths) walk(path, [])
  t.strictSame(rings, [])
})

t.test('no file is dead', async t => {
  const used = new Set(sources.flatMap(source => source.imports))
  const dead = [...paths].filter(path =>
    !used.has(path) && !entries.some(entry => entry.test(path)) &&
    !sources.some(source => source.path !== path && source.text.includes(`/${path.split('/').at(-1)!}'`))
  )
  t.strictSame(dead, [])
})

t.test('every test file is run by one group', async t => {
  const groups = sources.filter(({ path }) => path.startsWith('test/groups/'))
  const runs = groups.flatMap(({ text }) =>
    [...text.matchAll(/\brunFiles\('([^']+)'\)/g)].flatMap(([, pattern]) => globSync(pattern!, { cwd: root }))
  )
  t.strictSame(runs.sort(), [...paths].filter(path => path.endsWith('.test.ts')).sort())
})

t.test('the pure modules stay pure', async t => {
  const impure = sources.flatMap(({ path, imports }) => {
    const module = roomOf(path)
    const allowed = pure[module]
    if (allowed === undefined) return []
    return imports.filter(target =>
      !paths.has(target) && !allowed.some(name => target === name || target.startsWith(`${name}/`))
    ).map(target => `${path} → ${target}`)
  })
  t.strictSame(impure, [])
})

t.test('only actions write facts', async t => {
  const writers = sources.filter(({ path, imports }) =>
    imports.includes('src/nats/append.ts') && !['src/actions', 'src/nats', 'test'].includes(roomOf(path))
  )
  t.strictSame(writers.map(source => source.path), [])
})

t.test('no leftovers', async t => {
  const banned: Array<[RegExp, string]> = [
    [/\b(TODO|FIXME|XXX)\b/, 'a promise to come back'],
    [/\bconsole\.(log|error|warn)\b/, "console: use the log, or the CLI's print"],
    [/\bdebugger\b/, 'a breakpoint'],
    [/\.only\(/, 'a test that hides the others'],
    [/process\.env\b/, 'the environment is read in base/config.ts alone']
  ]
  const speakers = /^(src\/cli|src\/bin\.js|src\/node-version\.js|test\/)/
  // The machine's own environment, PATH and HOME, is not a setting of ours.
  const machinists = /^src\/embedded\//
  const found = sources.filter(source => source.path !== 'test/tidy.test.ts').flatMap(({ path, text }) =>
    banned
      .filter(([pattern]) => pattern.test(text))
      .filter(([, what]) =>
        !((what.startsWith('console') || what.startsWith('the environment')) && speakers.test(path))
      )
      .filter(([, what]) => !(what.startsWith('the environment') && machinists.test(path)))
      .map(([, what]) => `${path}: ${what}`)
  )
  t.strictSame(found, [])
})

t.test('exported types have names of their own', async t => {
  const TYPE = /^export (?:declare )?(?:abstract )?(?:interface|type|class) (\w+)/gm
  const places = new Map<string, string[]>()
  for (const { path, text } of sources.filter(({ path }) => !path.startsWith('test/') && !generated.test(path))) {
    for (const [, name] of text.matchAll(TYPE)) places.set(name!, [...places.get(name!) ?? [], path])
  }
  t.strictSame([...places].filter(([, paths]) => new Set(paths).size > 1).map(([name, paths]) => [name, ...paths]), [])
})

t.test('files are named after what they do', async t => {
  const empty = /\/(run|utils?|helpers?|misc|common|index|stuff|things?)\.(ts|js)$/
  t.strictSame([...paths].filter(path => empty.test(path) && !entries.some(entry => entry.test(path))), [])
})

t.test('words that the glossary bans do not come back', async t => {
  const banned = bannedWords()
  t.ok(banned.length > 10, 'the table is read')
  const pages = globSync(['*.md', '{docs,src,streams,projections}/**/*.md'], { cwd: root })
  const texts = [
    ...sources.filter(({ path }) => !path.startsWith('test/')),
    ...pages.map(path => ({ path, text: readFileSync(join(root, path), 'utf8') }))
  ].filter(({ path }) => !/^(docs\/glossary\.md|src\/feedback\/phrases\/)/.test(path))
  const found = texts.flatMap(({ path, text }) =>
    wordsOf(text).filter(({ word }) => banned.includes(word)).map(({ word, line }) => `${path}:${line} ${word}`)
  )
  t.strictSame(found, [])
})

/** The left column of the glossary's second table. */
function bannedWords (): string[] {
  const [, table = ''] = readFileSync(join(root, 'docs/glossary.md'), 'utf8').split('## Words we do not use')
  return [...table.matchAll(/^\| ([a-z]+) \|/gm)].map(([, word]) => word!).filter(word => word !== 'not')
}

/** Each word once a line, the parts of camelCase names as words of their own. */
function wordsOf (text: string): Array<{ word: string, line: number }> {
  return text.split('\n').flatMap((line, i) => {
    const parts = line.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? []
    return [...new Set(parts.map(part => part.toLowerCase()))].map(word => ({ word, line: i + 1 }))
  })
}

t.test('lines and files are not too long', async t => {
  const long = sources.flatMap(({ path, text }) => {
    const lines = text.split('\n')
    const wide = corpora.test(path) ? -1 : lines.findIndex(line => line.length > WIDTH_MAX)
    return [
      ...(wide === -1 ? [] : [`${path}:${wide + 1} is over ${WIDTH_MAX} characters`]),
      ...(lines.length > (path.startsWith('test/') ? 700 : 400) && !generated.test(path)
        ? [`${path} has too many lines`]
        : [])
    ]
  })
  t.strictSame(long, [])
})

t.test('npm checks every package it installs, wherever it comes from', async t => {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { integrity?: string, resolved?: string, license?: string, dev?: boolean }>
  }
  const installed = Object.entries(packages).filter(([path]) => path !== '')
  t.strictSame(
    installed.filter(([, { integrity }]) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? '')).map(([path]) => path),
    [],
    'packages without a checksum'
  )
  t.strictSame(
    installed.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path),
    [],
    'packages that name a host'
  )
  t.strictSame(
    installed.filter(([, { license, dev }]) => dev !== true && !LICENCES.has(license ?? '')).map(([path]) => path),
    [],
    'packages whose licence asks for more than to be named'
  )
})

t.test('a script that starts servers becomes the program, so that a signal to npm reaches it', async t => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const starting = Object.entries(scripts).filter(([, script]) =>
    /\btap run\b|src\/bin\.js|test\/bench\/|run -s check:tidy/.test(script)
  )
  t.ok(starting.length >= 12, 'the scripts are found')
  t.strictSame(
    starting.filter(([, script]) => !/^(.+ && |[A-Z_]+=\S+ )?exec [^&|;]+$/.test(script)).map(([name]) => name),
    [],
    'scripts without exec'
  )
})
