/** `npm run bench` measures; `npm run bench -- --help` says what. Each run is kept as one line of JSON in
 *  node_modules/.cache, with `--record` in results.jsonl beside this file, to be committed. */
import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdirSync } from 'node:fs'
import { cpus, loadavg, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { didYouMean } from '#src/base/suggest.ts'
import { openEmbeddedServers } from './bench.ts'
import { benches, helpText, isBench, runBench } from './benches.ts'
import { takeScreenshots } from './screenshots.ts'
import { wrongSetting, type BenchName } from './settings.ts'
import { printSize } from './size.ts'
import { takeTerminalPicture } from './terminal-picture.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const CACHE = join(ROOT, 'node_modules', '.cache')

interface Command {
  about: string
  argument: string
  act(argument: string | undefined): void | Promise<void>
}

/** What is no bench. */
const commands: Record<string, Command> = {
  size: {
    about: 'size of the code by module, in tokens, and its longest functions; starts no server',
    argument: '',
    act: () => printSize(console.log, ROOT)
  },
  screenshots: {
    about: 'pictures of every page of the dashboard',
    argument: ' [folder]',
    act: (folder = join(CACHE, 'jetpost-screenshots')) => takeScreenshots(folder)
  },
  terminal: {
    about: 'the picture of a first start, for docs/pictures',
    argument: ' [file]',
    act: (file = join(ROOT, 'docs', 'pictures', 'terminal.svg')) => takeTerminalPicture(file)
  }
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { record: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h', default: false } }
})
const [first = '', argument] = positionals
if (values.help) {
  console.log(helpText(Object.entries(commands).map(([name, { about, argument }]) => [name + argument, about])))
} else if (Object.hasOwn(commands, first)) await commands[first]!.act(argument)
else await measure(positionals)
process.exit()

async function measure (names: string[]): Promise<void> {
  const all = Object.keys(benches) as BenchName[]
  const wrong = wrongSetting(process.env)
  if (wrong !== null) return refuse(wrong)
  const chosen = names.length === 0 ? all : names.filter(isBench)
  const unknown = names.find(name => !isBench(name))
  if (unknown !== undefined) {
    const known = [...all, ...Object.keys(commands)]
    return refuse(`There is no bench ${unknown}.${didYouMean(unknown, known)} See: npm run bench -- --help`)
  }
  const path = values.record
    ? join(import.meta.dirname, 'results.jsonl')
    : join(CACHE, 'jetpost-bench', 'results.jsonl')
  mkdirSync(dirname(path), { recursive: true })
  const machine = {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGib: Math.round(totalmem() / 2 ** 30),
    node: process.version
  }
  for (const bench of chosen) {
    const busyBefore = loadavg()[0]
    const result = await runBench(bench, { env: process.env, openServers: openEmbeddedServers, say: console.log })
    const line = { bench, at: new Date().toISOString(), commit: commit(), machine, busyBefore, result }
    appendFileSync(path, `${JSON.stringify(line)}\n`)
  }
  console.log(`\n${machine.cores} × ${machine.cpu}, Node ${machine.node}; kept in ${path}`)
}

function refuse (sentence: string): never {
  console.error(sentence)
  process.exit(2)
}

/** With + behind it when files differ from it. */
function commit (): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  try {
    const differs = git('status', '--porcelain', '--untracked-files=no') !== ''
    return `${git('rev-parse', '--short', 'HEAD')}${differs ? '+' : ''}`
  } catch {
    return 'unknown'
  }
}
