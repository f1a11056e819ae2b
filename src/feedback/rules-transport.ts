import type { Rule } from './rules.ts'

/** Mail that goes in circles, or has waited too long, says many other things on its way. */
export const LOOPS: readonly Rule[] = [
  { class: 'expired', phrases: ['(message|mail|queue|delivery time) (has |was )?expired', 'expired: message'] },
  {
    class: 'networkerror',
    phrases: [
      'too many hops', '(mail|routing|forwarding|message|email|forward|delivery|possible|dns|mx) ?loop', 'loop(s|ing)? (back|detect|count|was|to|for|in)',
      '(is |message )looping', 'hop ?count', 'hops (exceeded|limit)', 'maximum hops?', 'too many received', 'already has my delivered to', 'loops back to', 'routing loop',
      'max\\w{0,4} (number of )?hops', 'loop detected'
    ]
  }
]

export const TRANSPORT: readonly Rule[] = [
  {
    class: 'expired',
    phrases: [
      'delivery (time )?(has )?(expired|timeout|timed out)', 'unable to deliver in \\d', 'message (has )?(expired|timed out|too old|was too old)',
      '(retry|queue|delivery|max\\w{0,4}|message) (time|timeout|period|lifetime|limit)~ (expired|exceed|elapsed|reached|passed)',
      'retry time(out)? (exceeded|not reached)', 'retry timeout', '(for|after|over|in|within)~ \\d{1,4} (days?|hours?|minutes?|d\\b|h\\b|seconds?)~',
      'in the queue (too|for)', 'queue too long', 'been in the queue', '(giving|gave|given) up', 'final attempt', 'not going to try again', 'time ?out (for|of) delivery',
      'expired', 'too long (in|on) (the )?(queue|system)', '(could|can|has) not (be|been) (delivered|sent)~ (for|within|after|since|until)',
      'exceeded (maximum |max )?(time|retry|retries|delivery)', '(maximum|max|too many|number of) (retries|attempts|delivery attempts|retry)~',
      'undeliver\\w{2,4} (for|after|since)', 'delivery delayed', 'unable to deliver~ (for|after|within|since|in)', 'still (being|not) ~(delivered|retried)',
      'no longer (retry|be retried)', 'cumulative time'
    ],
    unless: [
      'try again (in|after)', 'session', 'certificate', 'domain expired', 'connection~ (after|in|for)', 'account', 'registration', 'in \\d{1,4} (minutes|seconds|hours)',
      'read(ing)? (timeout|timed)'
    ]
  },
  {
    class: 'networkerror',
    phrases: [
      '(connection|connect|connecting|session|conversation|operation|network|host|socket|read|network|response|smtp|greeting|data|dns|lookup|server)~ (timed? ?out|' +
        'time out|timeout|refused|reset|lost|closed|dropped|unreachable|failed|failure|died|aborted|down|broken|was closed|not respond|interrupted|terminated|' +
        'shutdown|prematurely)',
      'connection (to|with|from)~ (timed|refused|failed|lost|closed|reset|dropped)', 'timed? ?out', 'lost connection', '(no|can ?not find a?|bad|find) route to host',
      'no route', '(network|host|server|destination) (is )?(unreachable|down|not reachable|not responding)',
      '(could|can|did) not (connect|establish|reach|contact|be reached|be contacted)',
      '(unable|failed|failure|cannot|not able|wasn t able) to (connect|establish|reach|contact)', 'able to establish an smtp connection', 'name service error',
      'dns (error|failure|problem|fail|server|query|lookup|timeout|resolution|temp|soft|name|records?)',
      '(name|host|domain|mx|cname|a|dns|address) ?(server)? (lookup|resolution|record lookup)~ (fail|error|tempor|timeout|timed|problem|deferred|could)',
      'cname lookup fail', 'name ?server', '(unable|failed) to (resolve|look ?up)', 'lookup (failed|failure|error|timed)', 'temporary (dns|name|lookup|resolver|network)',
      'no (answer|response) from', 'did not (respond|accept our requests?)',
      '(communication|network|transport|dns|socket|i/o|tcp|protocol|link|smtp transport) (failure|error|problem)', 'bad connection', 'broken pipe',
      'connection (refused|reset|timed|dropped|failure|failed|lost|died|closed|error|aborted|unexpectedly|broken)',
      'mx (host|record|lookup|server)s?~ (not|fail|unreach|down|error|all)', 'host (is )?(unreachable|down)', 'servfail', 'server (is )?(not responding|unreachable|down)',
      'no (mail |mx )?(host|server|exchanger|hosts|servers)~ (could be|reach|available|respond|accept)',
      'remote (host|server|mta)~ (not|fail|unreach|down|closed|refus|hung)', 'all hosts~ (fail|unreach|been failing)', 'mx points to', 'socket', 'econn', 'etimedout',
      'eai again', 'host not found, try again', 'ehostunreach', 'enotfound', 'unreachable', 'premature (close|end)', 'hung up', 'no servers? (could|responded)',
      'temporarily unable to (connect|resolve)', 'connection dropped', 'host name lookup failure', 'best preference mx', 'no adequate servers'
    ],
    unless: [
      'temporary lookup failure', '(user|recipient|account|alias|map) lookup', 'locals file', '(filter|scanner|milter|clamav|spamd) ',
      '(ldap|database|sql|mysql|backend|policy|milter|local|internal) ~(connection|timed|timeout|lookup|server|not respond)', 'reverse', 'authenticat'
    ]
  },
  {
    class: 'systemfull',
    phrases: [
      '(mail )?system (is )?full', 'disk (is )?full', 'no space left', 'insufficient (system )?(disk|storage)', 'system storage',
      '(file ?system|partition|spool|volume|queue|storage|server)~ (full|out of space)',
      '(not enough|low|insufficient|no|out of) (free )?(disk|system|storage|spool|queue|swap) ?(space|storage|resources)?', 'disk space', 'queue ?(file)? (is )?full',
      'enospc', 'mail system full', 'storage exhausted', 'out of disk'
    ]
  },
  {
    class: 'mailererror',
    phrases: [
      'command (died|output|time limit|failed|line|exited|terminated|returned)', 'died with (status|signal)',
      'mailer (error|died|returned|fail|exited|\\w{1,12} (died|exited))', 'unknown mailer', '(exit|exited|return|returned)( with)? (status|code|value|error)', 'procmail',
      'mail ?drop\\b', 'pipe (to|transport|command|failed|delivery|error)', '\\|/', 'child (process|crashed|died|returned)', 'process of ~transport returned',
      'transport returned', 'local (delivery agent|mailer|delivery) (fail|error|exited|died)', 'delivery agent', 'mail ?filter', 'vacation program',
      'program (fail|died|exited|returned|error|delivery)', 'execution (failed|of)', 'exec(ut)?\\w{0,3} (fail|error|\\.)', 'perl|python|php\\b',
      'script (fail|error|exited)', 'deferral: ~', 'shell', 'unable to run', 'autoreply program', 'sigterm|sigsegv|signal \\d', 'vdelivermail', 'qmail local',
      'dovecot ?lda', 'deliver:', 'x unix; \\d'
    ],
    unless: ['command (rejected|not|unrecog|unknown|syntax|unimpl|out of|is|disabled|required)', 'quota', 'syntax']
  },
  {
    class: 'syntaxerror',
    phrases: [
      'syntax( error|:| in)', 'unsupported (option|parameter)',
      '(command|commands|verb|parameter|argument|arguments|keyword|option)s?~ (not (recogni|implement|support|allowed|accepted|understood|valid|found)|unrecogni|' +
        'unknown|invalid|unimplement|error|syntax|rejected|out of|too long|expected|missing|disabled|required|sequence)',
      '(unrecogni[sz]ed|unknown|unimplemented|unsupported|invalid|bad|illegal|improper|garbled|out of sequence|non smtp) (command|parameter|argument|verb|option|' +
        'address syntax|keyword|smtp|sequence|esmtp|parameters)',
      'bad sequence', 'out of (order|sequence)', '(need|send|expecting|polite|issue|say)~ (mail|rcpt|helo|ehlo|data|command|hello)', 'nested mail',
      'protocol (error|violation|synchroni)', 'pipelin', 'synchroni[sz]ation', 'not implemented', 'unrecognized', 'what\\?', 'huh',
      'wrong (number of )?(command|argument|param)', 'unexpected (command|data|token|input)', 'malformed (command|path|parameter)', 'improper command',
      'sender already (given|specified)', 'not understood', 'no valid recipients', 'need rcpt', 'must (send|say|specify|issue)~(helo|ehlo|mail|rcpt)',
      'duplicate (helo|ehlo|mail)'
    ]
  },
  {
    class: 'systemerror',
    phrases: [
      '(local|internal|system|server|configuration|config|database|ldap|temporary|temporar\\w{2,3}|mysql|sql|software|processing|unexpected|unknown|general|fatal|' +
        'service|lookup|backend|application|transient|queue|i/o|filesystem|storage|resource|directory|smtp server|critical|unspecified|spool|technical|' +
        'undefined|remote)~ (error|failure|problem|misconfig|trouble|issue|fault|unavailable|fail|failed|exception|difficult)', 'deadlock',
      'error in processing',
      '(service|system|server|resource|resources|mailserver|facility|host|mail server|mail system)s?~ (is |are |currently |temporarily |not |too ' +
        '){0,3}(unavailable|available|busy|shutting|closing|overload|down|offline|maintenance|not accepting|out of|full of|being|not ready|insufficient|unable|not ' +
        'responding|suspended|not configured|stopped|stopping|disabled)',
      'insufficient (system )?(resources?|memory)', '(out of|not enough|can ?not allocate) (memory|resources|file)', 'misconfigur', 'configuration', 'shutting down',
      'closing (transmission|connection|channel)', 'maintenance', 'overload', 'over ?loaded',
      'unable to (queue|process|open|write|create|lock|read|append|accept message|deliver|stat|save|store|load|complete|allocate|fork|chdir|switch|bind|scan|check|' +
        'spool|safely|accept|rewrite)',
      '(can ?not|could not|failed to|unable to|can t) (open|write|create|lock|read|append|append message|chdir|stat|exec|fork|save|store|access|rename|process|' +
        'switch|update|queue|load|complete|bind)',
      '(read|write|open|create|fsync|rename|append|lock) (error|failure|failed)',
      'error (opening|writing|reading|creating|on|while|processing|during|code|occurred|from|saving|in|when)',
      '(file|lock|directory|permission)~ (error|denied|exists|failed|timeout|not|too large)', 'no such file', 'permission denied', 'not a directory',
      'aliasing|alias expansion', '(ldap|database|mysql|sql|directory) ', 'timeout (waiting|exceeded|while)',
      '(spam|virus|content|clam|spamd|milter|scanner|scan|filter|policy)~ (fail|error|timeout|timed|tempor|unavail|problem|not available)', 'crash', 'bug\\b',
      'transaction failed', 'requested action aborted', 'system (is )?not', 'restrict(ed|ion)s? mapping', 'temporary (failure|error|problem|lookup|local|server|system)',
      'temporar(y|ily) (unavail|unable|fail|reject|suspend|out of|local)', 'service ~(unavailable|not available)', '(busy|not ready)', 'mail for~ can ?not be',
      'unavailable', 'uncaught', 'storedrv', 'exception', 'i am not (treat|config)', 'locals file', 'unable to forward', 'panic', 'try (again )?(at )?a? ?later time',
      'address family', 'unsupported (mail destination|protocol)'
    ],
    unless: ['mailbox unavailable', 'bad sender', 'user unknown']
  },
  {
    class: 'onhold',
    phrases: [
      'try (again|later|it later|once more)', 'later', 'defer(red)?', 'temporar', 'held|on hold|hold\\b', 'queued|quarantin', 'verification in progress',
      'unverified address', 'being (checked|verified|processed|reviewed)', 'retry', 'please wait', 'not at this time', 'delayed', 'human verification', 'moderat'
    ]
  }
]
