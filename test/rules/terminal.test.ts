import t from 'tap'
import { createLog, type Log } from '#src/base/log.ts'
import { logLine, mailLine, outcomeOf } from '#src/cli/start.ts'
import { didYouMean, nearest } from '#src/base/suggest.ts'
import { cut, durationText, oneLine, pad, relativeText, widthOf, wrap } from '#src/cli/text.ts'
import { attempted, bounced, deferred, delivered, failed, inDoubt, suppressed } from '../support/facts.ts'

const S = 1000
const MIN = 60 * S
const H = 60 * MIN
const D = 24 * H

t.test('a duration is as short as a person reads it', async t => {
  const cases: Array<[number, string]> = [
    [0, '0 ms'],
    [39.4, '39 ms'],
    [999, '999 ms'],
    [4200, '4.2 s'],
    [59_949, '59.9 s'],
    [59_951, '1m 0s'],
    [637_571, '10m 38s'],
    [2 * H + 5 * MIN, '2h 5m'],
    [3 * D + 4 * H + 59 * MIN, '3d 4h']
  ]
  for (const [ms, text] of cases) t.equal(durationText(ms), text)
})

t.test('a time is told from now, on both sides', async t => {
  const now = Date.parse('2026-11-21T10:00:00Z')
  const cases: Array<[number, string]> = [
    [0, 'now'],
    [-3 * S, '3 s ago'],
    [-3 * MIN - 59 * S, '3 min ago'],
    [-47 * H, '47 h ago'],
    [-3 * D, '3 d ago'],
    [5 * MIN, 'in 5 min'],
    [-40 * D, '2026-10-12']
  ]
  for (const [ms, text] of cases) t.equal(relativeText(now + ms, now), text)
})

t.test('text is cut by what it shows, not by its letters', async t => {
  t.equal(cut('hello', 5), 'hello')
  t.equal(cut('hello!', 5), 'hell…')
  t.equal(cut('你好你好', 5), '你好…')
  t.equal(cut('👩‍👩‍👧 family', 6), '👩‍👩‍👧 fa…', 'an emoji of several signs stays whole')
  t.equal(cut('é'.normalize('NFD').repeat(3), 3), 'é'.normalize('NFD').repeat(3))
  t.equal(cut('hello', 0), '')
  t.equal(pad('你好', 6), '你好  ')
  for (const columns of [1, 2, 3, 7, 20]) t.ok(widthOf(cut('a你b👍c'.repeat(9), columns)) <= columns)
})

t.test('a line of help goes on under its description', async t => {
  t.strictSame(wrap('  --type  one, two, three', 19), ['  --type  one, two,', '          three'])
  t.strictSame(wrap('  a sentence that is long', 16), ['  a sentence', '  that is long'])
  t.strictSame(wrap('  --x  averyveryverylongword', 12), ['  --x  averyveryverylongword'], 'a word stays whole')
})

t.test('nothing that a terminal obeys is left in a line', async t => {
  t.equal(oneLine('a\u001b[31mb\r\nc\u0007\u009b2Jd\u202ee\u2066f\u2028g'), 'a [31mb c 2Jd e f g')
  t.equal(oneLine('half \ud800 a pair'), 'half \ufffd a pair')
})

t.test('who mistypes is told the nearest name', async t => {
  const names = ['start', 'send', 'tail', 'trace', 'webhooks', 'domains', 'rebuild']
  for (
    const [word, name] of [['strat', 'start'], ['webhoks', 'webhooks'], ['rebiuld', 'rebuild'], ['dom', 'domains']]
  ) {
    t.equal(nearest(word!, names), name)
  }
  for (const word of ['dance', 'x', '', 'constructor']) t.equal(nearest(word, names), null)
  t.equal(didYouMean('trail', names, name => `jetpost ${name}`), ' Did you mean jetpost tail?')
})

const event = (subject: string) => JSON.stringify({ data: { subject } })
const lineOf = (fact: Parameters<typeof mailLine>[0], columns = 100) => mailLine(fact, outcomeOf(fact)!, columns)
const SUBJECT = '{"data":{"subject":"It works"}}'

t.test('a line a mail: when, what, to whom, its subject, and how long it took or why', async t => {
  const email = 'em_1'
  const cases: Array<[string, RegExp]> = [
    [
      lineOf(delivered({ email, event: SUBJECT, ms: 39 })),
      /^\d\d:\d\d:\d\d ✓ delivered ada@example\.net "It works" 39 ms$/
    ],
    [
      lineOf(deferred({ email, event: SUBJECT })),
      /^\S+ … deferred  ada@example\.net "It works" again at \d\d:\d\d:\d\d: 451 4\.7\.1 later$/
    ],
    [lineOf(bounced({ email, event: SUBJECT })), /^\S+ ✗ bounced   ada@example\.net "It works" 550 /],
    [lineOf(failed({ email, event: SUBJECT })), /^\S+ ✗ failed    ada@example\.net "It works" expired$/],
    [lineOf(inDoubt({ email })), /^\S+ \? in doubt  ada@example\.net again at \S+: the sender was lost$/],
    [lineOf(suppressed({ email })), /^\S+ - suppressed ada@example\.net \w+$/]
  ]
  for (const [line, pattern] of cases) t.match(line, pattern)
  t.equal(outcomeOf(attempted({ email })), null, 'an attempt leads to another fact')
})

t.test('a mail takes one line, however narrow the terminal and whatever its subject', async t => {
  const hostile = 'Win\u001b]0;owned\u0007\r\n23:59:59 ✓ delivered\u202e🎉你好'.repeat(20)
  for (const columns of [20, 40, 61, 80, 200]) {
    for (const make of [delivered, deferred, bounced]) {
      const line = lineOf(make({ email: 'em_1', event: event(hostile) }), columns)
      t.ok(widthOf(line) <= Math.max(columns, 21), `${columns}: ${line}`)
      t.notMatch(line, /[\p{Cc}\u202e]/u)
    }
  }
  const long = lineOf(delivered({ email: 'em_1', event: event('x'.repeat(99)), ms: 39 }), 80)
  t.match(long, /ada@example\.net "x+…" 39 ms$/, 'the subject gives way, the rest stays')
  t.equal(widthOf(long), 80)
  t.match(lineOf(delivered({ email: 'em_1', event: event('x'.repeat(99)), ms: 39 }), 50), /ada@example\.net 39 ms$/)
})

/** What `log` gives to a terminal. */
function logged (write: (log: Log) => void): Array<string | null> {
  const lines: Array<string | null> = []
  write(createLog('debug', { write: json => void lines.push(logLine(json)) }))
  return lines
}

t.test('a line that is not of the log is shown as it is', async t => {
  t.equal(logLine('(node:7) Warning: old\u001b[2J'), '(node:7) Warning: old [2J')
})

t.test('the log on a terminal: warnings and errors in a line with their reason, mail elsewhere', async t => {
  const lines = logged(log => {
    log.child({ role: 'sender' }).warn({ err: new Error('no\u001b[2Jroute\nhome') }, 'sending interrupted')
    log.error({ stream: 'EMAILS', seq: 7, reason: 'bad row' }, 'fact dead-lettered')
    log.info('stream brought up to date')
    log.child({ role: 'sender' }).info({ result: 'delivered', email: 'em_1' }, 'smtp attempt')
    log.debug({ route: '/api' }, 'request')
  })
  t.match(lines[0], /^\d\d:\d\d:\d\d ! sender: sending interrupted: no \[2Jroute home$/)
  t.match(lines[1], /^\S+ ✗ fact dead-lettered: bad row stream=EMAILS seq=7$/)
  t.strictSame(lines.slice(2, 4), [null, null])
  t.match(lines[4], /^\S+ · request route=\/api$/, 'what somebody asks for with JETPOST_LOG_LEVEL=debug')
})

t.test('webhooks that fail are shown, and no secret ever', async t => {
  const attempt = {
    webhook: 'wh_1',
    host: 'shop.example',
    durationMs: 1234,
    error: null,
    status: null,
    nextAttemptAt: null
  }
  const next = '2026-11-21T10:00:05.000Z'
  const lines = logged(log => {
    const role = log.child({ role: 'webhooks' })
    role.info({ ...attempt, result: 'retrying', status: 500, nextAttemptAt: next }, 'webhook attempt')
    role.info({ ...attempt, result: 'failed', error: 'connection refused' }, 'webhook attempt')
    role.info({ ...attempt, result: 'delivered', status: 200 }, 'webhook attempt')
    log.warn({ secret: 'hunter2', smtpUrl: 'smtp://u:hunter2@h', body: 'hunter2' }, 'careless')
  })
  t.match(lines[0], /^\S+ ! webhook wh_1 shop\.example: answered 500 after 1\.2 s, again at \d\d:\d\d:\d\d$/)
  t.match(lines[1], /^\S+ ✗ webhook wh_1 shop\.example: connection refused after 1\.2 s$/)
  t.equal(lines[2], null)
  t.match(lines[3], 'careless')
  t.notMatch(lines[3], 'hunter2')
})
