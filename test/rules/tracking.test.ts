import t from 'tap'
import type { RecipientFact } from '#streams/email/facts.ts'
import { withMachine, type Engagement } from '#streams/email/engagements.ts'
import { isProgram } from '#src/servers/tracking/visits.ts'
import { attempted, bounced, deferred, delivered, inDoubt, timeAt } from '../support/facts.ts'

const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36'

t.test('people: browsers and mail programs, however they name themselves', async t => {
  const agents = [
    CHROME,
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)',
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148',
    'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Thunderbird/128.5.0',
    'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; WOW64; Trident/7.0; .NET4.0C; ' +
    'Microsoft Outlook 16.0.4266; ms-office; MSOffice 16)',
    'Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0.4266; Pro)',
    'Outlook-iOS/729.2215.prod.iphone',
    'MacOutlook/16.78.23100802',
    'Thunderbird/128.0',
    'Airmail/3.6',
    'Evolution/3.44.4',
    'K-9 Mail for Android',
    'w3m/0.5.3',
    'Lynx/2.9.0'
  ]
  for (const agent of agents) t.equal(isProgram({ 'user-agent': agent }), false, agent)
})

t.test('programs: image proxies, scanners, previews, scripts, and who does not say', async t => {
  const agents = [
    'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)',
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) ' +
    'Chrome/42.0.2311.135 Safari/537.36 Edge/12.246 Mozilla/5.0',
    'YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html',
    'Mozilla/5.0',
    'Mozilla/5.0 SeznamEmailProxy/2.0.174',
    'Mozilla/4.0 (compatible; ms-office; MSOffice rmj)',
    'Microsoft Office Existence Discovery',
    'Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/534+ (KHTML, like Gecko) BingPreview/1.0b',
    'Barracuda Sentinel (EE)',
    'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
    'Mail.RU_Bot/2.1',
    'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
    'WhatsApp/2.24',
    'curl/8.5.0',
    'python-requests/2.32.3',
    'node',
    '',
    ' '
  ]
  for (const agent of agents) t.equal(isProgram({ 'user-agent': agent }), true, agent)
  t.equal(isProgram({}), true)
})

t.test('who fetches ahead says so, in one of four headers', async t => {
  for (
    const headers of [
      { purpose: 'prefetch' },
      { 'sec-purpose': 'prefetch;prerender' },
      { 'sec-purpose': 'prefetch; anonymous-client-ip' },
      { 'x-moz': 'Prefetch' },
      { 'x-purpose': 'preview' }
    ]
  ) {
    t.equal(isProgram({ 'user-agent': CHROME, ...headers }), true, JSON.stringify(headers))
  }
  t.equal(isProgram({ 'user-agent': CHROME, purpose: 'reading', 'sec-fetch-dest': 'image' }), false)
})

const email = 'em_early'
const at = <F extends RecipientFact>(fact: F, seconds: number): F => ({ ...fact, time: timeAt(seconds) })
const sent = at(attempted({ email }), 100)

const table: Array<[string, RecipientFact[], number, boolean]> = [
  ['nothing is known', [], 100, false],
  ['before anything happened', [sent], 99, false],
  ['while it is handed over', [sent], 100, true],
  ['while a filter takes its time over it', [sent], 159.999, true],
  ['the sender seems to have died', [sent], 160, false],
  ['at once after the server took it', [sent, at(delivered({ email }), 103)], 103, true],
  ['just before two seconds', [sent, at(delivered({ email }), 103)], 104.999, true],
  ['two seconds later', [sent, at(delivered({ email }), 103)], 105, false],
  ['during the handover, told after it', [sent, at(delivered({ email }), 103)], 102, true],
  ['put off, and a copy may be there all the same', [sent, at(deferred({ email }), 103)], 103.5, false],
  ['in doubt', [sent, at(inDoubt({ email }), 103)], 103.5, false],
  ['sent again', [sent, at(deferred({ email }), 103), at(attempted({ email }), 400)], 401, true],
  ['bounced by a report, long after', [sent, at(delivered({ email }), 103), at(bounced({ email }), 900)], 901, false]
]

t.test('nobody reads a mail before it is there', async t => {
  const open: Engagement = { type: 'email.opened', data: { machine: false } }
  for (const [name, facts, seconds, machine] of table) {
    t.strictSame(withMachine(open, facts, Date.parse(timeAt(0)) + seconds * 1000), { ...open, data: { machine } }, name)
  }
})

t.test('what is early keeps the rest of what it says, and a program stays one', async t => {
  const atMs = Date.parse(timeAt(100))
  const click: Engagement = { type: 'email.clicked', data: { url: 'https://shop.example/', machine: false } }
  t.strictSame(withMachine(click, [sent], atMs), {
    type: 'email.clicked',
    data: { url: 'https://shop.example/', machine: true }
  })
  const robot: Engagement = { type: 'email.opened', data: { machine: true } }
  t.strictSame(withMachine(robot, [], atMs), robot)
  const goodbye: Engagement = { type: 'email.unsubscribed', data: { by: 'one-click', report: null } }
  t.strictSame(withMachine(goodbye, [sent], atMs), goodbye)
})
