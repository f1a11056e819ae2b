import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const ROOT = join(import.meta.dirname, '..', '..')

t.test('the package is what runs, and nothing else', async t => {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--offline']
  const [{ version, files }] = JSON.parse(
    execFileSync('npm', args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' })
  ) as [
    { version: string, files: Array<{ path: string }> }
  ]
  const paths = files.map(({ path }) => path)
  const needed = [
    'README.md',
    'LICENSE',
    'package.json',
    'src/bin.js',
    'src/cli.ts',
    'src/main.ts',
    'streams/catalog.ts'
  ]
  t.strictSame(needed.filter(path => !paths.includes(path)), [])
  const known = /^(?:README\.md|LICENSE|package\.json|(?:src|streams|projections|dist\/client)\/.+)$/
  t.strictSame(paths.filter(path => !known.test(path)), [], 'no test, document, setting or secret')
  t.strictSame(paths.filter(path => /\.test\.|(?:^|\/)(?:\.|node_modules|data\/)/.test(path)), [])
  const tracked = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).split('\n')
  t.strictSame(paths.filter(path => !path.startsWith('dist/') && !tracked.includes(path)), [], 'all of it is committed')
  const changelog = readFileSync(join(ROOT, 'docs/changelog.md'), 'utf8')
  t.ok(changelog.includes('\n## Unreleased\n') || changelog.includes(`\n## ${version}`), 'the changelog tells of it')
})
