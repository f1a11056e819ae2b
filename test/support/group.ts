import { globSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import './at-exit.ts'
import './compiled.ts'
import { setGroup } from './group-end.ts'

const ROOT = join(import.meta.dirname, '../..')
const FILE_TIMEOUT_MS = 600_000
const END_TIMEOUT_MS = 60_000
const SUBTEST_URL = new URL('./subtest.ts', import.meta.url).href

let loading: Test | null = null

/** The subtest of the file that is being loaded. */
export function currentSubtest (): Test {
  if (loading === null) throw new Error('No test file is being loaded')
  return loading
}

/**
 * Runs all test files that match `pattern`, a glob from the root, in this process: one after the other by name, each as
 * a subtest that is named after the file and ends with its teardowns. Together they load Jetpost once instead of once
 * each.
 */
export async function runFiles (pattern: string): Promise<void> {
  const files = globSync(pattern, { cwd: ROOT }).sort()
  if (files.length === 0) throw new Error(`No test file matches ${pattern}`)
  importSubtestAsTap()
  catchWithoutDomains()
  setGroup(t)
  t.teardown(endsByItself)
  t.setTimeout(files.length * FILE_TIMEOUT_MS)
  for (const file of files) {
    await t.test(file, { timeout: FILE_TIMEOUT_MS, at: null }, async t => {
      loading = t
      await import(pathToFileURL(join(ROOT, file)).href)
    })
  }
}

/** tap has async hooks follow every promise to the test that made it, for the error that nobody catches: a seventh of
 *  all that a group costs. Here such an error fails the file that is loaded. */
function catchWithoutDomains (): void {
  const leaveDomain = (test: Test) => {
    test.hookDomain.destroy()
    test.on('subtestAdd', added => leaveDomain(added as Test))
  }
  leaveDomain(t)
  // Opens the domain of what is outside of any test, and ends it.
  t.pipe(process.stdout)
  t.hook.onDestroy?.()
  process.on('uncaughtException', error => (loading ?? t).threw(error))
}

/** What a test left running would keep the group, and fails it. */
function endsByItself (): void {
  setTimeout(() => {
    console.error(`# The files of this group left something running: ${process.getActiveResourcesInfo().join()}`)
    process.exit(1)
  }, END_TIMEOUT_MS).unref()
}

/** A test file imports `tap` as if it ran alone, and so it can; in a group it gets its own subtest. The query has each
 *  file get a module of its own. */
function importSubtestAsTap (): void {
  registerHooks({
    resolve (specifier, context, next) {
      if (specifier !== 'tap' || context.parentURL?.endsWith('.test.ts') !== true) return next(specifier, context)
      return { url: `${SUBTEST_URL}?${encodeURIComponent(context.parentURL)}`, shortCircuit: true }
    }
  })
}
