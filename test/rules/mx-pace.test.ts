import t from 'tap'
import { Pace } from '#src/workers/sender/pace.ts'
import { demandOf, relayShape, setOf, siteOf } from '#src/workers/sender/shaping.ts'

const MINUTE = 60_000
const { shape: usual } = siteOf(['mx.example.net'])
const never = () => 0

/** So many transactions while all connections were open. */
function succeed (pace: Pace, times: number, nowMs = 0): void {
  for (let i = 0; i < times; i++) pace.succeeded(nowMs, 50, true)
}

t.test('the same hosts are one site, and a great receiver is one whatever its hosts are called', async t => {
  t.equal(siteOf(['b.example', 'a.example']).name, siteOf(['a.example', 'b.example']).name)
  t.not(siteOf(['a.example']).name, siteOf(['b.example']).name)
  t.equal(setOf(['b', 'a']), 'a b')
  const one = siteOf(['contoso-com.mail.protection.outlook.com'])
  const other = siteOf(['fabrikam-com.mail.protection.outlook.com'])
  t.equal(one.name, other.name)
  t.match(one.shape, { connections: 5, messages: 50 })
  t.not(siteOf(['hotmail-com.olc.protection.outlook.com']).name, one.name)
  t.equal(siteOf(['alt1.aspmx.l.google.com', 'aspmx2.googlemail.com']).name, 'google')
  t.not(siteOf(['filter.example', 'aspmx.l.google.com']).name, 'google', 'a filter before it is a site of its own')
  t.not(siteOf(['mx.notgoogle.com']).name, 'google')
  t.not(
    siteOf(['eu-smtp-inbound-1.mimecast.com']).name,
    siteOf(['us-smtp-inbound-1.mimecast.com']).name,
    'each region is its own'
  )
})

t.test('what a site takes is in the table', async t => {
  const taken = (host: string) => {
    const { connections, messages, tlsRequired } = siteOf([host]).shape
    return [connections, messages, tlsRequired]
  }
  t.same(taken('mx.example.net'), [10, 100, false])
  t.same(taken('gmail-smtp-in.l.google.com'), [5, 50, true])
  t.same(taken('mta5.am0.yahoodns.net'), [10, 20, false])
  t.same(taken('mx01.mail.icloud.com'), [10, 5, false])
  t.same(taken('mx1.comcast.net'), [25, 1000, true])
  t.same(taken('smtp-in.orange.fr'), [2, 100, true])
  t.same(taken('mx1.mail.yahoo.co.jp'), [2, 20, false])
  t.equal(siteOf(['mx1.comcast.net']).shape.idleMs, 30_000)
  t.equal(siteOf(['mx1.mail.yahoo.co.jp']).shape.messagesPerSecond, 10)
})

const SLOW_WORDS = [
  '4.7.650 The mail server has been temporarily rate limited due to IP reputation.',
  "5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent.",
  '4.7.500 Server busy. Please try again later from [192.0.2.1].',
  '4.7.0 [TSS04] temporarily deferred'
]

t.test('replies that are about the pace', async t => {
  const { shape: yahoo } = siteOf(['mta5.am0.yahoodns.net'])
  const { shape: comcast } = siteOf(['mx1.comcast.net'])
  t.same(
    demandOf(yahoo, {
      code: 421,
      text: '421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to user complaints'
    }, 'rcpt'),
    { suspendMs: 120 * MINUTE }
  )
  t.same(demandOf(comcast, { code: 421, text: '421 4.1.0 RL000010 throttled' }, 'connect'), { suspendMs: 5 * MINUTE })
  for (const text of SLOW_WORDS) {
    for (const stage of ['connect', 'rcpt', 'data'] as const) {
      t.equal(demandOf(usual, { code: 451, text }, stage), 'slow', `${stage} ${text}`)
    }
  }
  t.equal(demandOf(usual, { code: 451, text: '451 4.7.1 Greylisted, try again later' }, 'rcpt'), null)
  t.equal(demandOf(usual, { code: 550, text: '550 5.1.1 no such user' }, 'rcpt'), null)
  t.equal(demandOf(yahoo, { code: 250, text: '250 ok [TSS04]' }, 'data'), null)
})

t.test('a final refusal is about the pace only before RCPT: after that a recipient may have written it', async t => {
  const [{ shape: yahoo }, { shape: outlook }] = [
    siteOf(['mta5.am0.yahoodns.net']),
    siteOf(['one.mail.protection.outlook.com'])
  ]
  for (const shape of [usual, outlook]) {
    for (const text of SLOW_WORDS) {
      for (const stage of ['connect', 'ehlo', 'mail'] as const) {
        t.equal(demandOf(shape, { code: 550, text }, stage), 'slow', `${stage} ${text}`)
      }
      for (const stage of ['rcpt', 'data'] as const) {
        t.equal(demandOf(shape, { code: 550, text }, stage), null, `${stage} ${text}`)
      }
    }
  }
  t.equal(demandOf(yahoo, { code: 554, text: '554 5.7.9 [TSS04] not accepted' }, 'data'), null)
})

t.test('where many live, one domain’s words about a mail are hearsay', async t => {
  const { shape: outlook } = siteOf(['one.mail.protection.outlook.com'])
  for (const text of SLOW_WORDS) {
    for (const stage of ['rcpt', 'data'] as const) t.equal(demandOf(outlook, { code: 451, text }, stage), 'hearsay')
  }
  t.equal(demandOf(outlook, { code: 421, text: SLOW_WORDS[0]! }, 'connect'), 'slow')
})

t.test('a site begins with two connections, and gets one more with each good window, up to its limit', async t => {
  const pace = new Pace(usual, true)
  t.equal(pace.connections(), 2)
  succeed(pace, 9)
  t.equal(pace.connections(), 2)
  succeed(pace, 1)
  t.equal(pace.connections(), 3)
  succeed(pace, 1000)
  t.equal(pace.connections(), 10)
  const idle = new Pace(usual, true)
  for (let i = 0; i < 1000; i++) idle.succeeded(0, 50, false)
  t.equal(idle.connections(), 2, 'what was not used shows nothing')
})

t.test('trouble halves it, down to one', async t => {
  const pace = new Pace(usual, true)
  succeed(pace, 1000)
  const seen = []
  for (let i = 0; i < 5; i++) {
    pace.failed()
    seen.push(pace.connections())
  }
  t.same(seen, [5, 2, 1, 1, 1])
  succeed(pace, 5)
  t.equal(pace.connections(), 2, 'and it grows again')
})

t.test('a relay has all its connections at all times, and no rate', async t => {
  const pace = new Pace(relayShape(100), false)
  pace.failed()
  pace.slowDown(0)
  t.equal(pace.connections(), 100)
  for (let i = 0; i < 100_000; i++) pace.messageBegun(0)
  for (let i = 0; i < 1000; i++) pace.connectionBegun(0)
  t.equal(pace.messageWaitMs(0) + pace.connectionWaitMs(0), 0)
})

t.test('mails a second and connections a minute are bounded; a burst of one span is not', async t => {
  const pace = new Pace({ ...usual, messagesPerSecond: 10, connectionsPerMinute: 100 }, true)
  let mails = 0
  for (let nowMs = 0; nowMs < 10_000; nowMs += 10) {
    while (pace.messageWaitMs(nowMs) === 0) {
      pace.messageBegun(nowMs)
      mails++
    }
  }
  t.ok(mails >= 100 && mails <= 111, `${mails} mails in 10 s`)
  let connections = 0
  while (pace.connectionWaitMs(0) === 0) {
    pace.connectionBegun(0)
    connections++
  }
  t.equal(connections, 100)
  t.equal(pace.connectionWaitMs(0), 600)
})

t.test('on words about reputation: one connection, one mail a minute for 90 minutes, then doubling', async t => {
  const pace = new Pace(usual, true)
  succeed(pace, 1000)
  pace.slowDown(0)
  t.equal(pace.connections(), 1)
  succeed(pace, 1000, 89 * MINUTE)
  t.equal(pace.connections(), 1, 'held down')
  const sentWithin = (fromMs: number, ms: number) => {
    let mails = 0
    for (let nowMs = fromMs; nowMs < fromMs + ms; nowMs += 100) {
      if (pace.messageWaitMs(nowMs) > 0) continue
      pace.messageBegun(nowMs)
      mails++
    }
    return mails
  }
  t.equal(sentWithin(0, 90 * MINUTE), 89)
  const steps = [0, 1, 2, 3].map(step => sentWithin((90 + 10 * step) * MINUTE, 10 * MINUTE))
  for (const [step, mails] of steps.entries()) {
    t.ok(Math.abs(mails - 10 * 2 ** (step + 1)) <= 2, `${mails} in step ${step}`)
  }
  succeed(pace, 1000, 91 * MINUTE)
  t.equal(pace.connections(), 10, 'and it may grow again')
  pace.slowDown(200 * MINUTE)
  t.equal(pace.messageWaitMs(200 * MINUTE), MINUTE, 'said again, it begins again')
})

t.test('who finds no room is booked one after the other at the pace of late, and not for long', async t => {
  const pace = new Pace(usual, true)
  const near = Array.from({ length: 100 }, () => pace.reserve(0, never))
  t.same([near[0], near[1], near[99]], [10, 20, 1000], 'as fast as it may be while nothing is known')
  const first = pace.reserve(0, never)
  t.ok(first > 1000)
  t.equal(Math.round(pace.reserve(0, never) - first), 10)
  for (let i = 0; i < 100; i++) pace.succeeded(0, 400, false)
  const last = pace.reserve(0, never)
  t.equal(Math.round(pace.reserve(0, never) - last), 40, 'ten connections of 400 ms each: all that it may bear')
  for (let i = 0; i < 20_000; i++) pace.reserve(0, never)
  const late = pace.reserve(0, Math.random)
  t.ok(late >= 7.5 * MINUTE && late <= 15 * MINUTE)
})
