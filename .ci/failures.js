// Repeats what failed from a log of tap's, so that who sees only the end of it knows: each assertion with the tests
// it stands in and tap's diagnostics; before them, each once, what the apps of failed files noted (test/support/app.ts).
import { readFileSync } from 'node:fs'

const LINES_EACH = 40
/** Of those, at the end: where it was. */
const LINES_LAST = 22
const LINES_MAX = 200
/** A browser's command line would hide the rest. */
const CHARS_MAX = 400

const TROUBLE_CHARS_MAX = 200
const TROUBLES_MAX = 30

const out = []
/** How often each trouble was noted. */
const troubles = new Map()
/** The tests that are open, by their indent: name, and whether something in them has been told. */
const open = new Map()
/** The diagnostics we are in, and whether they belong to what was told last. */
let diagnostics = null
let isTold = false

for (const line of readFileSync(process.argv[2], 'utf8').split('\n')) {
  const [, blank, rest] = /^( *)(.*)$/s.exec(line)
  const indent = blank.length
  if (rest === '---' && diagnostics === null) diagnostics = { indent, lines: [] }
  if (diagnostics === null) read(indent, rest)
  else diagnose(indent, line, rest)
}
if (out.length > LINES_MAX) out.splice(LINES_MAX, Infinity, `… and ${out.length - LINES_MAX} lines more`)
const noted = [...troubles].slice(0, TROUBLES_MAX).map(([text, times]) => `${times} × trouble: ${text}`)
const all = [...noted, ...out.map(line => line.slice(0, CHARS_MAX))]
if (all.length > 0) console.log(all.join('\n'))

function read (indent, rest) {
  const begun = /^# Subtest: (.*)$/.exec(rest)
  if (begun !== null) begin(indent, begun[1])
  if (rest.startsWith('# trouble: ')) note(rest.slice('# trouble: '.length))
  const failed = /^(?:not ok \d+ - |Bail out!)(.*?)(?: # time=.*)?$/.exec(rest)
  isTold = failed !== null && !/ # (?:TODO|SKIP)\b/i.test(rest) && tell(indent, rest, failed[1])
}

function begin (indent, name) {
  for (const deeper of open.keys()) if (deeper >= indent) open.delete(deeper)
  open.set(indent, { name, told: false })
}

/** When it was noted, and where in the code, is left out. */
function note (text) {
  const told = text.replace(/"(?:level|time)":\d+,/g, '').replace(/"stack":.*$/, '').slice(0, TROUBLE_CHARS_MAX)
  troubles.set(told, (troubles.get(told) ?? 0) + 1)
}

/** Of a test in which something failed that is told already, no more is said. */
function tell (indent, line, name) {
  const own = open.get(indent)
  if (own?.name === name && own.told) return false
  const within = [...open].filter(([at]) => at < indent).map(([, test]) => test)
  for (const test of within) test.told = true
  out.push([...within.map(test => test.name), line].join(' > '))
  return true
}

function diagnose (indent, line, rest) {
  diagnostics.lines.push(line.slice(diagnostics.indent))
  if (rest !== '...' || indent !== diagnostics.indent) return
  const { lines } = diagnostics
  const surplus = lines.length - LINES_EACH
  if (surplus > 0) lines.splice(LINES_EACH - LINES_LAST, surplus, `… ${surplus} lines more`)
  if (isTold) out.push(...lines.map(text => `    ${text}`))
  diagnostics = null
}
