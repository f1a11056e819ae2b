import type { Rule } from './rules.ts'

/** Blocks and bad names. */
export const BLOCKS: readonly Rule[] = [
  {
    class: 'badreputation',
    phrases: [
      '(poor|low|bad|negative|insufficient|bulk)~ reputation',
      'reputation~ (is |too |of ~)?(poor|low|bad|negative|score)'
    ],
    unless: ['dnsbl']
  },
  {
    class: 'blocked',
    phrases: [
      'dnsbl',
      'rbl\\b',
      'spamhaus',
      'spam ?cop',
      'sorbs',
      'uceprotect',
      'barracuda ?(central|reputation|brbl)',
      'invaluement',
      'mailspike',
      'psbl',
      'nix ?spam',
      'njabl',
      'dsbl',
      '(black|block|deny|drop|reject) ?list',
      'listed (in|on|at|by)~ (rbl|list|database|zen|sbl|xbl|pbl|css|cbl|bl)',
      'real ?time~ (block|black|list)',
      '(zen|sbl|xbl|pbl|cbl|css|dbl)\\b'
    ],
    unless: [
      '(sender|your (email )?address|from|domain)~ (black|block) ?list',
      '(url|link|uri|body|subject)~ (listed|black|block)',
      'uribl|surbl',
      'sender in'
    ]
  },
  {
    class: 'badreputation',
    phrases: [
      'reputation',
      'sender ?score',
      'sender ?base',
      'poor (sender|ip|domain)',
      'bad (sender )?(score|standing|history)',
      'trust (level|score)',
      'untrusted',
      'talos',
      'bad neighbou?r',
      'complaints?',
      'low (score|trust)',
      'not trusted'
    ],
    unless: ['certificate']
  },
  {
    class: 'blocked',
    phrases: [
      '(client|your|connecting|sending|the|remote|this|from|source) (host|ip|server|address|ip address|mta|mail server|network|isp|mailserver|system|machine|relay|' +
      'site|country|subnet|netblock|hostname)~ ?(is |was |has been |have been |are |being |currently |temporarily |been ){0,3}(blocked|banned|rejected|refused|' +
      'denied|not allowed|not permitted|listed|barred|prohibited|disallowed|firewalled|black|restricted|not accepted|unwelcome|forbidden|blackholed|on our)',
      'blocked (using|by|for|due to|because|from|at|ip|address|host)',
      'client host~ (blocked|rejected|denied)',
      '(connection|connections|access|mail|email|message|messages|traffic) (from~ )?(was |were |is |are |has been |have been |temporarily |currently |being |has ' +
      'temporarily been ){0,3}(blocked|banned)',
      'ip (address )?(is |was |has been )?(blocked|banned|rejected|refused|denied|not allowed|listed)',
      'blocked ip',
      'banned ip',
      'bad (ip|host|helo|ehlo)',
      '(dynamic|residential|dial ?up|dynamically|consumer|dsl|cable)~ ?(ip|address|addresses|host|hosts|range|space|pool|client|user|assigned|customers)',
      '(helo|ehlo)~ (rejected|invalid|denied|refused|not|must|name|bad|access|command|is|mismatch|syntax|domain|host|argument|required|reject)',
      '(invalid|bad|fake|forged|illegal|your|incorrect) (helo|ehlo)',
      'open (relay|proxy)',
      'no (mail|email|messages|access|connections?) (accepted )?from (your|this|ip)',
      '(mail|email|connections?|messages) (refused|rejected|denied|not accepted|not allowed|dropped) from (your|this|ip|host)',
      'not (currently )?accept(ing)? (any )?(mail|email|connections?|messages|traffic)~ from (your|this|ip|host|dynamic|the (ip|host)|ips|hosts|mail server)',
      '(we do not|does not|will not|refus\\w{2,3}) (to )?accept~ from (your|this|ip|host|dynamic|the ip|ips)',
      'you (are|have been|were) (blocked|banned|black|not allowed to connect|not welcome|denied)',
      'access (from|to)~ (blocked|denied|forbidden)~ (ip|host)',
      'denied (access )?(by|due to)? ?(rbl|black|dns|ip)',
      'unsolicited~ (ip|has been blocked)',
      'delist',
      'removal (request|form|from)',
      'unblock',
      'exploit',
      'go away',
      'your (host|ip|server|network|provider)~ (spam|abuse|attack|known)',
      'known spam (source|host|server|ip)',
      'spam ?source',
      'spammer',
      'you are spamm',
      'source of spam',
      'spam (from|sent|sending)~ (your|this) (ip|host|server|network)',
      'too many (errors|bad commands|invalid|unknown|spam|non ?exist|wrong|bounces|policy|bad|failed|reject)',
      'excessive (unknown|invalid|bounces|spam|errors|rejects)',
      'directory harvest',
      '(intrusion|attack) (prevention|detect)',
      'dictionary attack',
      'harvest',
      'error rate',
      'geographic|country',
      'connect(ion)?s? (rejected|refused|denied|dropped|not allowed|not accepted|closed due|is not allowed) ' +
      '(from|by (our|policy|rule|admin)|due|for|your|you|at|policy|because|ip)',
      'host(name)? (is )?(not allowed|not permitted|denied|rejected|refused|banned|not accepted|blocked|access denied)',
      'not allowed to (connect|access|use|talk)',
      'not (authori[sz]ed|permitted) to (connect|access)',
      'rejected~ (ip is|your ip|client ip|network|host)',
      'access denied[.:]? ~(ip|host|client|server|network)',
      'administratively (denied|blocked)',
      'no (smtp )?(service|access) (for|to) (you|your)',
      'banned',
      'block\\w{0,5}[.:]? ~(contact|refer|see|visit)'
    ],
    unless: [
      'attachment',
      'content (is |was )?(blocked|rejected)',
      'sender (address )?(is )?(blacklisted|blocked)',
      '(reject|blocked|refused|detected) as spam',
      '(url|link|uri|domain in|body|subject)~ ?(black|block|listed|uribl|surbl|dbl)',
      'connection (refused|timed)$',
      'inactivity',
      'socket',
      'spam (like|content|url)',
      '(user|recipient)s? (has|have) blocked',
      'spam ?assassin',
      'message (has been |was |is )?blocked',
      'could not connect',
      'file'
    ]
  }
]

/** How much and how fast. */
export const PACE: readonly Rule[] = [
  {
    class: 'toomanyconn',
    phrases: [
      'too many (concurrent|simultaneous|connections?|sessions?|smtp sessions|parallel|open connections|recipients?|rcpts?|clients|hosts|users logged|addresses|' +
      'smtp connections|active|tcp|delivery|incoming|destination|envelope|client|processes|threads|connects|logins)',
      '(sessions?|threads?|connections?) limit',
      '(max(imum)?|limit|number of|concurrent|simultaneous|concurrency|connection|session)~ (connections?|sessions?|recipients?|clients)~ ?(reached|exceed|over|' +
      'limit|too|is|per)',
      'connections? (limit|count|rate) ~(exceeded|reached|from)',
      'connection (limit|frequency)',
      '(concurrency|concurrent|simultaneous|parallel) (limit|connections?|sessions?)',
      'exceed(s|ed)?~ (connections?|recipients|sessions|concurrency|concurrent)',
      'recipients? (count|limit|number)~ ?(exceed|reached|is)',
      'max\\w{0,4} (number of )?(recipients|connections|rcpt|sessions)',
      'recipient limit',
      'all server ports are busy',
      'no (more )?(free |available )?(slots|connections|sessions)',
      'more than \\d{1,4} (connections|recipients|sessions)',
      'limited to \\d{1,4} (connections|recipients)'
    ],
    unless: ['unknown', 'invalid', 'non ?exist', '(bad|wrong|rejected|unverified) recipients', 'timed out', 'refused']
  },
  {
    class: 'speeding',
    phrases: [
      'rate ?(limit|limited|limits|limiting|exceeded|control|restriction|is too|too high|of (mail|messages))',
      'rate~ exceed',
      'throttl',
      '(too|this|so) (fast|quickly|frequent|frequently|often|rapid)',
      'too many (messages|emails?|mails?|requests|transactions|deliveries|mail from|commands|attempts|msgs|letters|sends|in a|per|rset|mail)',
      '(grey|gray) ?-?list\\w{0,3}',
      'postgrey',
      'slow(er)? down',
      'slow down',
      'please slow',
      'slower',
      'sending (limit|rate|quota|frequency)',
      '(hourly|daily|per hour|per minute|per day|monthly|per second|outgoing|outbound|submission) ?(message|email|mail|sending)? ?(limit|quota|allowance|threshold|' +
      'rate|max)',
      '(message|mail|email|messages|msg|sender|send|relay|sent) (limit|quota|rate|frequency|count|volume)~ ?(exceed|reach|limit|over|too|hit)',
      '(exceed(s|ed)?|reached|over)~ (messages|mails|emails|send|sending|hourly|daily|message|mail|rate|outgoing) ~(limit|quota|per|rate|allow|max|threshold|count)',
      'exceeded~ (per|in) (hour|minute|day|second|the last)',
      'recipients (received |sent )?(this|per|in an?) (hour|minute|day)',
      '(messages|mails|emails) per (hour|minute|day|second|connection|session)',
      'per (hour|minute|day|connection)~ (exceed|limit|reached)',
      'frequency',
      'temporar\\w{2,3} (rate|throttled)',
      'flood',
      'burst',
      'high (volume|rate|traffic|number)',
      'traffic limit',
      'resources restricted',
      'back ?off',
      'excessive (rate|volume|mail|email|connection|traffic|message)',
      'limit (exceeded|reached)[.:]? ~(later|minute|hour|day|messages|mails)',
      'come back (later|in)',
      'try again in \\d',
      'retry (in|after) \\d',
      '(wait|return|again|retry)~ \\d{1,5} (seconds?|secs?|minutes?|mins?|s\\b)',
      'first (time|attempt|seen|contact)',
      'not yet (accept|auth|known|white)',
      'delayed ~(unknown|new|first|policy)',
      'please (try|come|retry)~ (slower|minutes|seconds|hour)',
      'deferred (due to|for) ~(policy|rate|greet|volume|unexpected|user)',
      'quota (of|for)~ (messages|mails|emails)',
      'unusual (rate|volume|amount|sending|number)',
      'max(imum)? ?(message|mail|email|messages|number of messages|send)s? ~(per|limit|exceeded)',
      'early (talker|talk)',
      'you are sending (too|more|so)',
      'send(ing)? too',
      'your message (has been )?rate',
      'too much (mail|email|traffic|messages|volume|load)',
      'defer(red)?[.,:]? greet',
      'load (too high|average|is too)',
      'system load',
      'temporarily (deferred|delayed|unable to accept messages)~ (volume|rate|grey)'
    ],
    unless: ['per message', 'size', 'reject(ed)? as spam']
  }
]

/** What we have sent. */
export const CONTENT: readonly Rule[] = [
  { class: 'exceedlimit', status: ['2.3'], phrases: ['size', 'large', 'big', 'long', 'length', 'exceed'] },
  {
    class: 'mesgtoobig',
    phrases: [
      '(message|mail|email|letter|msg|data|content|body|attachment|file|it|this|header|headers|size)( \\w{1,12})?( is| was| are| would be| size| size is| length)? ' +
      '(too|over|more|much too|excessively) (large|big|long|sized?|huge|heavy|\\d)',
      '(message|mail|email|max\\w{0,4}|data|body|content|msg|attachment|allowed|file|letter|fixed|declared|total|limit)~ (size|length|bytes)~ ?(exceed|limit|over|' +
      'larger|too|maximum|bigger|more|reach|violat|allowed|above|not)',
      '(size|length|large|big)~ (exceed|over)',
      'exceed(s|ed|ing)?~ (message|mail|size|length|max|fixed|limit of|mb|bytes|kb|allowed|administrative|server|global)~ ?(size|length|limit|bytes|mb|kb|maximum)',
      'exceed(s|ed)?~ (size|length)',
      'size (limit|of (the|this) message|restriction|not allowed|violation|is)',
      'size ~(exceed|too|larger|over|limit)',
      '(larger|bigger|longer) than~ ?(allowed|limit|maximum|\\d|permitted|the|accept|we)',
      'too (large|big)\\b',
      'oversize',
      'max(imum)? (message|msg|mail|email|allowed|data|attachment|size)~ ?(size|length|bytes|is|of)',
      'exceeds? ~\\d ?(mb|kb|bytes|m\\b|k\\b)',
      'administrative limit',
      'size limits?',
      'message length',
      'datasize',
      'exceeded maximum (size|inbound)'
    ],
    unless: [
      'line (too|length|is)',
      'lines? ~(too long|longer)',
      '(header|headers|subject|local part|domain|command|address|path|recipient list|name)~ too (long|large|many)',
      'line length',
      'rate',
      'too large (number|volume)',
      'command line'
    ]
  },
  {
    class: 'notcompliantrfc',
    phrases: [
      'rfc ?(2?82[12]|532[12])',
      'rfc~ (compli|violat|conform|format)',
      '(compl|violat|conform|accordance)\\w{0,6}~ rfc',
      'not (rfc|compliant|in compliance|comply)',
      'bare (received|lf|cr|<lf>)',
      'bare ?(lf|cr|line|linefeed|newline|nl|carriage)',
      '(missing|multiple|duplicate|no|more than one|several|without|two|lacks?|invalid|bad|malformed|illegal|empty|broken|incorrect|required|improper|absent|' +
      'wrong) (or invalid |valid |or multiple |required |mandatory |a |the |or missing |or malformed |or bad ){0,2}(from|to|date|message ?id|subject|headers?|' +
      'reply to|sender|received|header fields?|from header|content type headers?|mandatory)~ ?(header|headers|field|fields|line)',
      'headers? fail\\w{0,3} syntax',
      'headers? (is |are |was |line |field |section |syntax )?(missing|invalid|malformed|not|bad|required|must|error|contains|illegal|with|too|count|does)',
      'message ?id (is )?(missing|required|invalid|not|header)',
      'messages? (missing|without|must have|should have|does not have|has no|has multiple|with)~ (from|date|to|header|message ?id|subject)',
      'line(s)? (too long|length|is too long|longer|exceed)',
      'too many (received|headers)',
      'bad ?headers?',
      'malformed (message|mail|email|header|from|mime header|address in|to)',
      'not conform',
      'duplicate header',
      'ill ?formed',
      'smuggl',
      'invalid (date|line ending|message format|characters? in header)',
      'line ?feed',
      'crlf',
      'non ?compliant',
      'internet message format'
    ],
    unless: ['rfc ?ignorant', 'command', 'helo|ehlo', 'pipelin', 'ptr', 'relay', 'spf|dkim']
  },
  {
    class: 'contenterror',
    phrases: [
      '(mime|multipart|boundary|content transfer encoding|charset|character set|encoding|base64|quoted printable|8 ?-?bit|non ascii|utf ?-?8|smtputf8|unicode|' +
      'uuencode|binary ?mime|conversion)~',
      'conversion (required|failed|not|prohibited|error|with)',
      'can ?not (be )?(convert|decode|pars)',
      '(8bit|smtputf8) (not|is not|required|support)',
      'improper use of 8 ?bit',
      'invalid (message )?(content|character|body|mime|encoding)',
      'nested ~(too|level|deep)',
      'malformed (content|body|data)',
      'message (is )?(corrupt|broken|unparsable)',
      'corrupt(ed)? (message|mail|content)',
      'illegal characters?',
      'pars(e|ing) (error|failed|failure)',
      'content (conversion|error|not supported|invalid)',
      'media (type )?not supported',
      '(eight|8|high) ?bit',
      '(nul|null|control|binary|raw)( bytes?)? (characters?|bytes?)',
      '(mail|email|messages?) with such content',
      'empty (message|body|mail)',
      'message (is |has )?(empty|no (content|body|text))',
      'zero length',
      'internationali[sz]ed'
    ],
    unless: ['spam', 'attachment']
  },
  {
    class: 'policyviolation',
    phrases: [
      'attachments?',
      '(file|files|executable|zip|archive|extension|macro|office document|password protected|document)s?~ ?(type|extension|name|not (allowed|accepted|permitted)|' +
      'blocked|banned|prohibited|forbidden|rejected|denied)',
      '(blocked|banned|prohibited|forbidden|illegal|unauthori[sz]ed|disallowed|restricted|dangerous|executable|encrypted) (file|content type|attach|extension|archive)',
      'html (mail|email|messages|only) ?(is |are )?(not|reject)',
      '\\.(exe|scr|zip|pif|bat|vbs|js|com) ',
      'too many (attachments|files|mime parts|parts|links|urls)'
    ]
  }
]

/** A judgement on this message, whatever is said of lists and addresses beside it. */
export const JUDGED: readonly Rule[] = [
  {
    class: 'spamdetected',
    phrases: [
      '(rejected|refused|blocked|identified|classified|detected|flagged|marked|considered|recogni[sz]ed|tagged|treated|caught|filtered|discarded|denied|accepted)~ ' +
      '(as|to be|by|due to|because of|is) (being |likely |probable |possible |potential |a |an |our |the |containing |high |suspected ){0,3}' +
      '(spam|junk|ube|uce|unsolicited)(?! ?(source|list|block|cop|haus|rbl|dnsbl))',
      'looks like (a )?spam',
      'content~ (looks|seems|appears|is|spam)~ (spam|junk)',
      'spam (content|score|like|filter)',
      'is (likely |probably |possibly )?spam\\b',
      'spam ?assassin',
      'gtube',
      'spam probability',
      'probability of spam'
    ],
    unless: [
      'dnsbl',
      'your (ip|host|server|network)',
      'ip (address|is|has)',
      'spam ?(cop|haus|trap)',
      'reputation',
      'temporar',
      'timeout',
      'unavailable',
      'virus',
      'try (again )?later'
    ]
  }
]

export const SPAM: readonly Rule[] = [
  {
    class: 'spamdetected',
    phrases: [
      'spam',
      'unsolicited',
      'junk',
      'uce\\b',
      'ube\\b',
      'bulk (mail|email|message)',
      'bayes',
      'uribl',
      'surbl',
      'spam ?assassin',
      'rspamd',
      'spamicity',
      'score~ (exceed|above|too|over|high|threshold|is|required|of)',
      'hits~ required',
      '(content|body|subject|message|text|data|mail|email)~ (rejected|refused|denied|blocked|filtered|unacceptable|prohibited|forbidden|not accepted|not allowed|' +
      'objectionable|disallowed)~ (content|filter|body|subject|words?|phrases?|keyword|url|link)',
      '(content|message|mail|email) filter',
      'content (rejected|refused|denied|blocked|restriction|restrictions|filtering|not accepted|not allowed|unacceptable|policy|violation|is |has been |was |' +
      'rejection|check|scan|denied)',
      '(forbidden|prohibited|suspicious|offensive|unacceptable|banned|objectionable|unwanted|bad|inappropriate|blocked|undesirable|illegal) (content|words?|' +
      'phrases?|url|link|urls|body|subject|text|keyword|domain in|uri|mail|email|message|language)\\b',
      '(url|link|uri|links|phrase|keyword|urls|body|subject|website)s?~ (black|block|listed|in (the |your )?(message|body|mail)|banned|rejected|detected|found|' +
      'prohibit|contain|not allowed|dbl)',
      '(rejected|blocked|identified|classified|considered|flagged|marked|treated|detected|looks|caught|scored|recognized|tagged|suspected|deemed|determined)~ ' +
      '(spam|junk|suspicious|unwanted|unsolicited|ube|uce|bulk)',
      'pornograph',
      'scam',
      'fraud',
      'hoax',
      'nigerian',
      'viagra',
      'dcc\\b',
      'razor',
      'pyzor',
      'fingerprint',
      'cloudmark',
      'unwanted',
      'looks like',
      'message contains',
      'appears to be (spam|unsolicited|an? )',
      'does not like',
      'mail looks',
      'advert',
      'commtouch',
      'heuristic',
      'sa score',
      'high probability'
    ],
    unless: [
      '(temporary|temporar\\w{2,3}) (failure|problem|error)',
      'spamd (unavailable|timeout|error|temporar)',
      '(spam|content|message) ?(filter|scanner|check|scan|engine|assassin)~ (unavailable|timeout|timed|temporar|down|busy|not available|error|fail|problem)',
      'user unknown'
    ]
  }
]

/** Refused for a reason they keep to themselves. */
export const POLICY: readonly Rule[] = [
  {
    class: 'policyviolation',
    phrases: [
      'polic(y|ies)',
      'administrative(ly)? (prohib|reject|denied|block|refus|restrict|decision|disabled)',
      'administrator ~(rejected|block|prohib|denied|refus|set|restrict)',
      'security polic',
      'terms of (service|use)',
      'acceptable use',
      'prohibited',
      'legal',
      'compliance',
      'site rules?',
      'local (rule|restriction)s?',
      'milter',
      'transport ?rules?',
      'rule (matched|imposed|violation)',
      'violat',
      'not allowed by',
      'disallowed',
      'unacceptable',
      '(delivery|message|mail|email) (not |was not )?(authori[sz]ed|permitted|allowed)',
      '(message|mail|email|delivery)~ not (authori[sz]ed|permitted|allowed|accepted)'
    ],
    unless: [
      'user unknown',
      'temporar\\w{2,3} (lookup|problem|error|failure)',
      'policy (server|service|daemon|check)~ (unavail|problem|timeout|error|fail|tempor|config)',
      'server configuration (problem|error)'
    ]
  }
]

/** Words that only count when no others did. */
export const VAGUE: readonly Rule[] = [
  {
    class: 'blocked',
    phrases: [
      'block(ed)?\\b',
      '(connection|client|host|ip|server|network|access)~ (rejected|refused|denied|not allowed|not permitted|dropped)',
      'no service (here|for|to|available)',
      'no smtp service',
      'service (is )?not (permitted|allowed)',
      'rejected ~connection',
      'unauthori[sz]ed'
    ],
    unless: [
      'recipient',
      '(message|mail|email)~ blocked',
      'connection refused',
      'rejected (the |your |this )?(message|mail)'
    ]
  },
  {
    class: 'spamdetected',
    phrases: ['(message|mail|email)~ blocked', 'content', 'rejected by (the )?(content|filter|anti)', 'filter']
  },
  { class: 'mesgtoobig', phrases: ['size'] },
  {
    class: 'policyviolation',
    stage: 'data',
    phrases: [
      'permission denied',
      'access denied',
      'not (permitted|allowed|authori[sz]ed)',
      'forbidden',
      'restricted',
      'denied by'
    ]
  },
  {
    class: 'policyviolation',
    phrases: ['not (permitted|allowed|authori[sz]ed)', 'access denied', 'forbidden', 'restricted', 'prohibit']
  }
]
