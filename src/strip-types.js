// Node strips types as it loads a source, but none below `node_modules`: there `npm install` of our package puts them.
import { readFileSync } from 'node:fs'
import module from 'node:module'

const ROOT = new URL('..', import.meta.url).href

if (ROOT.includes('/node_modules/')) {
  // Node warns at the first call that this is experimental: nothing that an operator could mend.
  const { emitWarning } = process
  process.emitWarning = () => {}
  module.stripTypeScriptTypes('')
  process.emitWarning = emitWarning
  module.registerHooks({
    load (url, context, nextLoad) {
      if (!url.startsWith(ROOT) || !url.endsWith('.ts')) return nextLoad(url, context)
      const source = module.stripTypeScriptTypes(readFileSync(new URL(url), 'utf8'))
      return { format: 'module', source, shortCircuit: true }
    }
  })
}
