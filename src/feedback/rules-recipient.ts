import type { Rule } from './rules.ts'

/** The one at the other end, and where the mail is put. */
const BOX = '(mail ?box|in ?box|mail ?drop|mail ?folder|message ?store|mail ?store|mail ?dir|mbox)( es)?'
const WHO = '(users?|user ?(id|name)s?|recipients?( email)?( address)?|rcpt|refs?|((mail|email|user) )?accounts?|' +
  `${BOX}|((email|mail|destination|the|this|to) )?address( es)?|emails?|alias|local ?part|person|subscriber|customer|member|employee|receiver)`
const BE = '( is| was| are| were| has been| have been| id| name|:)?'

/** Over quota: never about us, so it goes before all that is. */
export const FULL: readonly Rule[] = [
  {
    class: 'mailboxfull',
    status: ['2.2'],
    phrases: ['exceed', '(is |was )?full', 'storage', 'space', 'over'],
    unless: ['message (size|too)']
  },
  {
    class: 'mailboxfull',
    phrases: [
      `${BOX}~ full\\b`,
      '(user|recipient|account|customer)~ (is|are|was|seems|mailbox) ~full\\b',
      'full mail ?box',
      'user full',
      'mailbox ?full',
      'over ?quota',
      'too much (mail|data)~ (stored|in (his|her|their|the) mail ?box)',
      'over (the |its |their |his |my |your |allowed |disk |mail |mailbox |storage |allotted |assigned |maximum |the maximum |the allowed |the allotted )?(disk |' +
      'mail |mailbox |storage )?quota',
      'exceed(s|ed|ing)?~ quota',
      'exceed(s|ed) (its |the |their )?(allocated |allotted )?storage',
      'quota (is |has been |have been |was |would be |will be |limit )?(exceeded|exceed|full|reached|violation|exhausted|is over)',
      'exceed(s|ed)?~(disk|mail ?box|storage|mail|allotted|maximum) (space|limit|allocation|allotment)',
      '(mail ?box|user|disk|mail|maildir|storage|hard|recipient) quota',
      '(not enough|insufficient|no more|no|out of|lacks?|ran out of) (free |available |disk |mail ?box |user |quota |storage )?(storage|space|room|quota|storage ' +
      `space)~ (${BOX}|account|user|recipient|his|her|destination)`,
      `${BOX}~ (over|exceed|out of|no space|has no|size limit|lacks|too large|too big|reached|limit)`,
      'recipient~ (over|exceed|out of|reached)~(quota|limit|storage|space|size)',
      'user~ (over|exceed|out of|reached)~(quota|limit|storage|space|size)',
      'account~ (over|exceed|out of|reached)~(quota|limit|storage|space|size)',
      'user is over',
      'not enough (storage|disk) space available',
      'storage (limit|space|quota) (has been |is |was )?(exceeded|reached|full)',
      'out of (storage|quota)',
      'too many messages (in|on) (the|this|mail|in ?box|folder|your|his)',
      'user has too many messages',
      'requested mail action (not taken|aborted): exceeded storage allocation',
      'exceeded storage allocation',
      'edquot',
      'mail ?box space',
      'hat zuviele? (mails|speicherplatz)',
      'disk quota',
      'is full[.,]? try',
      'message would exceed',
      'insufficient mail ?box',
      'insufficient quota'
    ],
    unless: [
      '(sending|send|daily|hourly|message|outgoing|submission|rate|connection|sender|monthly|relay|recipients?) (quota|limit)',
      'queue',
      'disk (is )?full',
      'file ?system',
      'per (hour|minute|day|second|connection)',
      'mail system full',
      'message (size|length)',
      'maximum message',
      'session limit',
      'rate limit',
      'too many (recipients|connections)',
      'messages? (is |are )?too (large|big)',
      'rate limited',
      'your (domain|account|server|ip)',
      'sender ',
      'fixed maximum',
      'system (storage|resources)',
      'errors'
    ]
  }
]

/** So plain that a word like "rejected" or "policy" beside it changes nothing. */
export const PLAINLY_UNKNOWN: readonly Rule[] = [
  {
    class: 'userunknown',
    phrases: [
      `users? ?${BE} ?unknown`,
      'unknown( local)? (user|recipient|ref|mail ?box|local ?part|account|email|customer|alias|person|receiver|rcpt)',
      'no such( local| virtual| email| mail)? (user|mail ?box|recipient|person|address|account|email|ref|alias|login|customer|subscriber|member)',
      `${WHO}~ (does|do|did) not (currently |seem to )?exist`,
      `${WHO}${BE} not (be )?(found|known|exist|existing|listed|registered)`,
      'recipient not found',
      `${WHO} (could |can )not be (found|located|identified)`,
      'recipient ((was|is) )?rejected[.] (refer|see|visit|check)',
      `${WHO}${BE} (unknown|nonexistent|non ?existent|non existant)`,
      '(user|mail ?box|recipient|account)~ not (be )?found',
      'no mail ?box (here )?(by|with|for|under|named)',
      'no mail ?box here',
      'does not have an? ~(account|mail ?box|email)',
      'not our (customer|user)',
      '(do|does) not have an? ~(user|customer|mail ?box|account)',
      'invalid final delivery user',
      'non ?existent (user|mail ?box|recipient|address|account|email|ref)'
    ],
    unless: [
      'sender',
      '(domain|host)( name)?~ (does not exist|not (be )?(found|registered)|unknown)',
      'helo|ehlo',
      '(invalid|unknown|bad|non ?exist\\w{2,3}|wrong) (user|recipient|address|addresse|rcpt|email|mailbox|account)(s| es)\\b',
      'excessive',
      'mail from',
      'return(ing)? (path|address|mail)',
      'mailer error',
      'envelope',
      'reverse ?path',
      'temporar',
      'try again',
      'verification',
      'verif',
      'authenticat',
      'credential',
      'password',
      '(grey|gray) ?list',
      'reputation',
      'from address',
      'ip address',
      'policyd?'
    ]
  }
]

/** A host that takes mail from nobody. */
export const NOBODY: readonly Rule[] = [
  {
    class: 'notaccept',
    phrases: [
      'null ?mx',
      '(never|no longer|not) accept(s|ing)? (any )?(mail|messages|email)[.,]? ?(ever|rfc|goodbye|null|$)',
      '(machine|server|host|system) never accepts?'
    ],
    unless: ['sender', '(return|reverse) path', 'mail from', '(user|mail ?box|account|address) ']
  },
  { class: 'notaccept', digit: 5, phrases: ['system not accepting (network )?messages'] },
  {
    class: 'notaccept',
    phrases: ['accepts no (mail|messages|email)(?! from)'],
    unless: ['sender']
  }
]

/** What the recipient, or the owner of a list, lets in: it goes before what is said of senders and filters in general.
 */
export const CLOSED: readonly Rule[] = [
  {
    class: 'filtered',
    phrases: [
      '(recipient|user|ref|owner|mailbox)( s|s)?( own| personal| private| email| mail| spam)? ' +
      '(filter|rules?|settings|preferences|sieve|(black|block|white|allow|safe) ?list)',
      '(recipient|user|owner|customer)s? list of',
      'personal (filter|rule|(black|block|white) ?list|block)',
      'approved senders?',
      '(has|have) (blocked|refused|black ?listed) (you|your|this|the sender|the address|sender|mail|email|messages)',
      `${WHO}~ (does not|do not|will not|is not|not|only) (accept|accepts|accepting|want|allow|allowing)( any| to receive)?( mail| messages?| emails?)? from`,
      'accept (mail|messages?|emails?) from you\\b',
      'not accepting (mail|messages?|emails?) from this sender',
      'only (accepts?|accepting) (mail|messages?|emails?) from',
      '(nur|only) interne?',
      'only internal'
    ],
    unless: [
      '(your|this) (ip|host|server|network|domain)',
      'ip (address|is)',
      'dynamic',
      'dnsbl',
      'spf|dkim|dmarc',
      'reverse',
      '^.{0,30}sender address'
    ]
  }
]

/** An account that was closed by somebody: nothing to do with blocks of ours. */
export const CLOSED_DOWN: readonly Rule[] = [
  {
    class: 'suspend',
    phrases: [
      '(user|recipient|mail ?box|account)( s|s)?( email| mail)?( account| address| mail ?box)? (is |was |has been |have been )(currently |temporarily |permanently )?' +
      '(disabled|suspended|inactive|deactivated|blocked|locked|frozen|hibernated)'
    ],
    unless: [
      '(your|sender|sending|from) ',
      '\\bip\\b',
      'spam',
      'dnsbl',
      '(blocked|suspended|locked) (for|due to|because of) (?!inactiv|non|unpaid)',
      'auth'
    ]
  }
]

/** All other ways to say that there is nobody. */
export const UNKNOWN: readonly Rule[] = [
  {
    class: 'hasmoved',
    phrases: [
      '(user|recipient|mail ?box|person|account|address|subscriber|he|she) ?(has|have|is|was)? ?(been )?moved',
      'has been replaced by',
      'moved to (a )?(new|another|other|different)',
      '(email|mail )?address (has|was|have) ?(been )?(changed|replaced)',
      '(has|have) (a )?(new|changed)~ (email|address)',
      'new (email )?address( is|:)',
      'please (use|try|update)~ new address',
      'please use~ instead',
      'now (uses|has|reachable|available) ~address',
      'user not local; (please )?try',
      'address has changed',
      'changed (his|her|their|its|my)? ?(email )?address',
      'no longer ~please (use|update|contact|send|try) ~(new|address)',
      'new contact address'
    ]
  },
  {
    class: 'suspend',
    phrases: [
      `${WHO}~ ((is|was|are|has been|have been|currently|temporarily|permanently|administrative(ly)?|been) ){0,2}(disabled|suspended|inactive|deactivated|inactivated|not ` +
      'active|unactive|dormant|locked|frozen|blocked|restricted|on hold|expired|not enabled|not activated|unavailable due to|out of service|banned|barred|' +
      'hibernated|not yet active|retired|turned off|disactivated|cancelled)\\b',
      '(disabled|suspended|inactive|deactivated|dormant|locked|blocked|expired|frozen|not active|unactivated|closed) (recipient|user|mail ?box|account|address|' +
      'email|customer)',
      '(is|been|was|account) (currently |temporarily |permanently |administrative(ly)? )?(disabled|suspended|deactivated)',
      'user (is )?inactive',
      'not been (active|activated|used|logged|accessed)',
      'extended (period of )?inactivity',
      'inactivity',
      'mail ?box currently (unavailable|suspended)',
      'not being accepted for this mail ?box',
      'locked out',
      'account (is )?(under|on) (hold|review)',
      'mail receiving disabled',
      'recipient suspend',
      'mailbox is blocked',
      'recipient~ disabled',
      'not paid',
      'has not paid',
      'unpaid',
      'email account (is )?not active',
      '(mail ?box|account)~ blocked due to inactivity',
      'disabled (recipient|mailbox|due)',
      'delivery to this (user|mailbox|address) (is|has been) (disabled|suspended)',
      'has been (frozen|locked)',
      'temporarily (locked|frozen|deactivated)',
      'disabled account',
      'mailing to this user (is|was) disabled'
    ],
    unless: [
      'has (blocked|rejected|refused)',
      '(your|sender|sending) (account|mailbox|email|address|ip|domain|mail|user)',
      'ip address',
      'tls',
      'vrfy',
      'relay',
      '(message|mail|email|messages?|connection|content|attachment) (has been |was |is |are |content )?(blocked|restricted)',
      'blocked (by|for|using|because|due|from|see)',
      '(senders?|from|client|server|host|ip|hostname|return|(your|sending) domain) ~(is|was|has been|are|addresse?s?) ~(blocked|banned|restricted|disabled|suspended)',
      'message expired',
      'time expired',
      'locked by (another|other)',
      'lock(ed)? file',
      'spam',
      'restricted to',
      'from address',
      'address ip',
      'address blocked',
      'sender address',
      'open relay',
      'command disabled',
      'authentication (is )?disabled',
      'auth'
    ]
  },
  {
    class: 'hostunknown',
    phrases: [
      '(domain|host)( name)?~ (does not exist|do not exist|not exist)',
      '(domain|host|host or domain|hostname)( name| lookup)? ?(is |was |could |can )?(not (be )?|un)(found|known|resolved|resolvable)',
      'name service error for~ host not found$',
      'host or domain name not found',
      '(domain|host|hostname)~ not (be )?(found|registered)',
      'host not found',
      '(unknown|no such|invalid|bad|nonexistent|non ?existent|unresolvable|unroutable|unrouteable|illegal|unqualified) (mail |recipient |destination |target |' +
      'remote |email )?(domain|host)',
      'could not find (any|a) host',
      '(not|could not) find any host named',
      'all relevant mx records point to',
      'all host address lookups failed permanently',
      'unrout(e)?able (address|mail domain|recipient|domain)',
      'recipient (address )?domain~ (not|no|unknown|invalid)',
      'domain of (recipient|the recipient)~ (not|no|unknown|invalid)',
      'nxdomain',
      'query\\w{1,6} enotfound',
      'no (such|valid) (mx|domain)',
      '(no|lacks?|without) (valid )?(a or mx|mx or a|mx|mail exchanger|dns) (record|entry|host|data)',
      '(un|not )able to (look ?up|resolve|find|locate|route)~ (domain|host|mail (exchange|server)|mx|recipient address)',
      'can ?not (resolve|find|look ?up|route)~ (domain|host|mx)',
      'domain (is |has )?(expired|not registered|unavailable|no longer|never|dead|lookup fail|deadLetters)',
      'mail server for~ not found',
      'illegal host/domain',
      'dns (lookup )?(error|failure): ~ (not found|domain name not)',
      'domain name not found',
      'no route to recipient domain',
      'unable to route',
      'no a, aaaa',
      'domain (used by|you)~ does not',
      'the domain~ (not|no) (accept|found|valid)',
      'no mail (hosts|servers? (mx records? )?(exist|found|for))',
      'mail exchanger~ not found',
      'malformed domain',
      'no smtp service at',
      'domain has no mail exchangers',
      'server~ not be found',
      'recipient.s domain~ not'
    ],
    unless: [
      'sender',
      'try again',
      'temporar',
      '(your|from|client|sending|connecting) (domain|host|ip|server|address|name|mail)',
      'helo|ehlo',
      'reverse|ptr|rdns',
      'mail from',
      'timed? ?out',
      'servfail|server fail',
      'not accept',
      'return(ing)? (path|address)'
    ]
  },
  {
    class: 'notaccept',
    phrases: [
      '(does|do|will|can|could|is) not (currently )?(accept|accepting|receive|receiving|process)( any| all)? (e?mail|emails|messages|incoming|inbound|incoming ' +
      'mail|smtp)',
      'not (accept|accepting|configured to receive) (any )?(mail|emails?|messages|incoming mail)$',
      'no (incoming )?mail(s)? accepted',
      'mail (is )?not accepted (at|on|by|here|for) (this|the|any)',
      'no (longer )?(smtp|mail|email) (service|accepted|accepts?|host) (here|on|at|to this)',
      'smtp (protocol|service) (disabled|not available|is not)',
      'no longer (accepts?|accepting|receives?)( any)? (mail|email|messages)',
      'this (machine|server|host|system|domain) (never|does not|is not|no longer) (accepts?|receives?|set up|configured)',
      'host does not accept',
      'send ?only',
      'name server:~ host not found',
      'domain does not accept',
      'not a mail (server|exchanger)',
      'mail service (is )?(disabled|not available)',
      'does not (run|have|offer|operate) (a )?(mail|smtp) (server|service)'
    ],
    unless: [
      'from (your|this|ip|dynamic|hosts?|senders?|clients?|unknown|addresses|dial|dsl|residential|non|domains?|untrusted|servers)',
      'without',
      'too (large|big)',
      'larger',
      '(mailbox|user|recipient|account|address)',
      'temporar',
      'size',
      'spam',
      'from',
      'attachment',
      'right now',
      'at this time',
      'try (again|later)',
      'that (contain|are)',
      'containing'
    ]
  },
  // A 4xx must say it more plainly than that.
  {
    class: 'onhold',
    digit: 4,
    phrases: [
      `${WHO}~ (unavailable|not available|busy|unverified|not verified)`,
      `${WHO}${BE} (rejected|refused)[.]?$`,
      'unverified',
      '(verify|verif\\w{1,8}|validat\\w{1,4})~ (fail|error|in progress|unsuccess|could)',
      '(could|can) not (be )?(verif|validat)\\w{1,4}'
    ],
    unless: ['sender', 'storage|quota|full', 'command', 'connect|host|dns', 'system', 'database|ldap|backend|internal']
  },
  {
    class: 'userunknown',
    digit: 5,
    phrases: ['(user|recipient|address|mail ?box) (can|could) not be (verified|validated)'],
    unless: ['sender']
  },
  {
    class: 'userunknown',
    phrases: [
      `${WHO}~ no longer (exist|valid|in use|in service|available|active|here|works?|used|on|accept|with|current|employed|monitored|receiv)`,
      'no longer (works?|employed|with (the|our|this|us)|a valid|an active|at this|on (this )?server|has an? (account|mailbox))',
      '(has |have )?left (the )?(company|organi[sz]ation|university|firm|our|us|school)',
      '(invalid|illegal|bad|wrong|incorrect|non ?valid|undeliverable|unresolvable|unregistered|undefined|obsolete|unrecogni[sz]ed|unacceptable|unavailable|dead|' +
      'deleted|not existing|not valid|void|expunged) (local |final |email |mail |destination |smtp |rcpt |domain |account )?(recipient|rcpt|user|mail ?box|' +
      'ref|account|receiver|local ?part|to address|address|email|destination|inbox|name|userid|alias)',
      `${WHO}${BE} (invalid|incorrect|wrong|deleted|terminated|removed|cancell?ed|undeliverable|closed|discontinued|unavailable|unresolvable|unrecogni[sz]ed|` +
      'undefined|obsolete|gone|dead|retired|not valid|not a valid|not available|not recogni[sz]ed|not local|not here|not on|not in|not (our|of|hosted|accepted|' +
      'deliverable|existent|allowed here|present|resolved|verified|a known|a user|an? )|no such|no mail ?box|no valid|nobody|rejected$|not accessible|purged|' +
      'unregistered|nonexist|error$|wrong)',
      'not (a|an) (valid|known|registered|existing|local|recogni[sz]ed|active|current|legal|real|acceptable|legitimate)( \\w{1,12})? (user|recipient|mail ?box|' +
      'account|address|email|customer|subscriber|member|inbox|alias)',
      'not (valid|known|registered|existing|local) (user|recipient|mail ?box|account|address)',
      'server rejected address',
      '(not|no|nothing) (exist|appear|found|listed|present|match\\w{0,3}|known|entry|registered|in|a member)~ ' +
      '(directory|ldap|database|user list|local|virtual|recipient|domino|table|name and address|address ?(book|list)|gal|active directory|map)',
      'can ?not (be )?(find|found|resolve|locate|verify|deliver to)~ (user|recipient|mail ?box|account|address|person)',
      '(unable|failed|failure) (to |in )?(find|finding|locate|resolve|verify|validate|look ?up)~ (user|recipient|mail ?box|account|address|person)',
      'could not (find|locate|resolve|verify|be found|validate|be resolved)',
      '(user|recipient|address|ldap) (lookup|verification|validation|verify|check) (failed|failure|error|unsuccessful)',
      'no (account|recipient|local user|one|user|person|alias|address|match|mapping|email)( \\w{1,12})? (here|by that|by this|with that|with this|found|exist|' +
      'exists|named|under|known|match\\w{0,3}|registered|of that|available)',
      'there is no (one|user|account|such|recipient|person|mail ?box|email|address)',
      'nobody (here|by|with|named|home)',
      'i have no mailbox',
      'mail ?box (not|is not|currently not|name not|temporarily not)? ?(unavailable|available|allowed|valid|invalid)',
      'mail ?box unavailable',
      'recipient (address )?(rejected|refused)$',
      'recipient(s)? (address )?unavailable',
      '(is|are) (not|no longer) (a )?(valid|known|active|registered|recogni[sz]ed|on|here|hosted|deliverable|user|our|subscribed|in our|in the|local|available|current)',
      'permanently (deleted|removed|closed|deactivated)',
      'unknown (to|address|here|or|alias|destination|target|mailbox|forward|email|rcpt)',
      'unknown$',
      'is unknown',
      'badrcptto',
      'undeliverable (address|recipient|mail to)',
      'user not',
      'address (is )?not',
      'bad (destination|recipient|address|mailbox|rcpt)',
      'check (the|your|that|this|for)~ (spelling|address|recipient|typo)',
      'mis ?spell?ed',
      'wrong recipient',
      'recipient does',
      'no deliverable',
      'destination mail ?box address invalid',
      'not exist',
      'user is not',
      'account (is )?not',
      'user doesnt',
      'is no longer with',
      'recipnotfound',
      'did not reach~ (not found)',
      'email address you entered could',
      'could not be found',
      'destination address (unknown|invalid|rejected)',
      'address rejected\\.?$',
      'recipient rejected\\.?$',
      'rejected recipient',
      'recipient address rejected: undeliverable',
      'recipient address rejected\\.?$',
      'invalid recipient',
      'nonexistent',
      'not in use',
      'not a recipient',
      'mail ?box not',
      'invalid mail ?box',
      'no mail ?box',
      'not have (an? )?(valid )?(account|mail ?box)',
      'not a member of our',
      'unknown recipient',
      'unknown user',
      'recipient no longer',
      'deleted$',
      `${BOX}~ (is |was )?(unavailable|not available)`,
      '(marked|flagged) (as )?invalid',
      'not match any',
      '(was|were|be) not found',
      'not found (at|on|in) (this|the|our)?'
    ],
    unless: [
      'sender',
      'helo|ehlo',
      'mail from',
      'from (address|header|domain)',
      'command',
      '(grey|gray) ?list',
      'dns',
      'ip (is|address)',
      'verification in progress',
      'syntax',
      'system (is )?not',
      'message (is )?not',
      'invalid (message|header|date|character|mime|credential|login|password|response|sequence|argument|parameter)',
      'attachment',
      'not allowed to send',
      'not authori[sz]ed',
      'permission',
      'not permitted',
      'relay',
      'temporar',
      'local error',
      'file',
      'directory:',
      'cert',
      'hostname',
      'too many',
      'server (is )?not (available|responding)',
      'service (is )?not available',
      'not available (at this time|now)',
      'try (again )?later',
      'host unknown',
      'signature',
      'key',
      'subscri'
    ]
  },
  {
    class: 'filtered',
    phrases: [
      '(recipient|user|mailbox|he|she|ref) (only accepts|accepts only|refuses?|refused|does not (want|wish|accept)|has (blocked|rejected|refused|chosen)|is ' +
      'not accepting|does not accept|is only accepting|rejects?|rejected|declined|will not accept)',
      'only accepts? (mail|messages|email)s? from',
      'only accepting (mail|email)',
      'not (on|in) ~(white ?list|allow(ed)? ?list|approved|safe ?list|contact)',
      'this account is protected',
      'protected by',
      '(blocked|rejected|refused|denied) by (the |a )?(recipient|user|ref|owner|customer)',
      '(recipient|user|personal|custom|mailbox|user.?s|end user) (filter|rule|filters|rules|preferences|settings|black ?list|blocked? ?list)',
      'rejected by (user|recipient|mailbox) ?(filter|rule|policy)?',
      'refuse(s|d)? to (receive|accept)( mail| your)?',
      'not accepting (any )?(mail|messages|email)s? from',
      'does not accept (mail|messages|email)s? from',
      'sieve',
      'closed (mailing )?list',
      '(member|moderator|subscriber)s? only',
      'only (members|subscribers|moderators|list members)',
      'not (a )?(subscrib\\w{2,3}|member(?! of our)|allowed to post|authori[sz]ed to post)',
      'post(s|ing)? (to|by) ~(list|group)',
      'group you tried to contact',
      'permission to (post|send|email)',
      'challenge',
      'mail (was )?(rejected|refused) by (the )?recipient',
      'user reject',
      'refused by recipient',
      'recipient refused',
      'rejected due to user',
      'blocks? (all )?(mail|messages|emails?) from',
      'approved senders',
      'not authori[sz]ed to send',
      'allowed to send (mail |email |messages )?to (this|the) (recipient|user|group|list|distribution|address)',
      'recipient address~ (restricted|protected)',
      'internal (use )?only',
      'external (senders|mail|email) ~not',
      'not accept ~ (external|outside|internet)'
    ],
    unless: ['dnsbl', 'your ip', 'dynamic', 'spf|dkim|dmarc', 'ip address', 'spam', 'postscreen']
  }
]
