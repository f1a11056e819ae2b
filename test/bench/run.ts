/** `npm run bench` measures all there is, `npm run bench accept` one of it. Each takes a minute or so, starts its own
 *  servers and prints what it found; every run is kept as one line of JSON in node_modules/.cache, with `--record` in
 *  results.jsonl beside this file, to be committed. `npm run bench screenshots` takes pictures of the dashboard in
 *  place of measuring, `npm run bench terminal` the one of a first start in docs/pictures. */
import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdirSync } from 'node:fs'
import { cpus, loadavg, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { benchAccept } from './accept.ts'
import { benchDashboard } from './dashboard.ts'
import { benchDkim } from './dkim.ts'
import { benchEndToEnd } from './end-to-end.ts'
import { benchLists } from './lists.ts'
import { benchMime } from './mime.ts'
import { benchRebuild } from './rebuild.ts'
import { takeScreenshots } from './screenshots.ts'
import { benchSender } from './sender.ts'
import { takeTerminalPicture } from './terminal-picture.ts'
import { benchWebhookIsolation } from './webhook-isolation.ts'
import { benchWebhooks } from './webhooks.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const benches: Record<string, () => Promise<Record<string, unknown>>> = {
  accept: benchAccept,
  dashboard: benchDashboard,
  dkim: benchDkim,
  'end-to-end': benchEndToEnd,
  lists: benchLists,
  mime: benchMime,
  rebuild: benchRebuild,
  sender: benchSender,
  'webhook-isolation': benchWebhookIsolation,
  webhooks: benchWebhooks
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { record: { type: 'boolean', default: false } }
})
if (positionals[0] === 'screenshots') {
  await takeScreenshots(positionals[1] ?? join(ROOT, 'node_modules', '.cache', 'jetpost-screenshots'))
  process.exit()
}
if (positionals[0] === 'terminal') {
  await takeTerminalPicture(positionals[1] ?? join(ROOT, 'docs', 'pictures', 'terminal.svg'))
  process.exit()
}
const names = positionals.length === 0 ? Object.keys(benches) : positionals
const unknown = names.filter(name => benches[name] === undefined)
if (unknown.length > 0) {
  console.error(`There is no bench ${unknown.join(', ')}: there are ${Object.keys(benches).join(', ')}.`)
  process.exit(2)
}

const path = values.record
  ? fileURLToPath(new URL('results.jsonl', import.meta.url))
  : join(ROOT, 'node_modules', '.cache', 'jetpost-bench', 'results.jsonl')
mkdirSync(dirname(path), { recursive: true })
const machine = {
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  memoryGib: Math.round(totalmem() / 2 ** 30),
  node: process.version
}
for (const name of names) {
  const busyBefore = loadavg()[0]
  const result = await benches[name]!()
  appendFileSync(
    path,
    `${JSON.stringify({ bench: name, at: new Date().toISOString(), commit: commit(), machine, busyBefore, result })}\n`
  )
}
console.log(`\n${machine.cores} × ${machine.cpu}, Node ${machine.node}; kept in ${path}`)

/** With + behind it when files differ from it. */
function commit (): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  try {
    return `${git('rev-parse', '--short', 'HEAD')}${
      git('status', '--porcelain', '--untracked-files=no') === '' ? '' : '+'
    }`
  } catch {
    return 'unknown'
  }
}
