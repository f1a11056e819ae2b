import type { Rule } from './rules.ts'

/** Our own address did not pass: such texts quote what another server said of it, "User unknown" for instance. */
export const UNVERIFIED: readonly Rule[] = [
  {
    class: 'rejected',
    wrapped: true,
    phrases: [
      'sender address rejected',
      'sender verif\\w{1,7} (failed|failure|error|is|check)',
      '(could|can) not (verify|validate) (the |your )?(sender|return path)',
      'sender (address )?(could|can) not be verified',
      '(sender|return path|envelope from|from address|mail from) (callout|callback|call back|verification|verify)',
      'callback (setup )?fail',
      'verification of (the )?sender',
      'verification failed for'
    ],
    unless: ['spf|dkim|dmarc|sender policy framework']
  }
]

/** Who we say we are: sender, relaying, TLS, log-in. These texts quote users and domains of ours, so they go before
 *  those about the recipient's. */
export const SENDER: readonly Rule[] = [
  {
    class: 'rejected',
    phrases: [
      '(sender|from|return path|reverse path|envelope sender|sending|mail from|envelope from|sender.?s)( email| mail)?( address| domain| host| mailbox| user| ' +
      'email address| account| name){0,3}( name)? ?(is |was |has |does |could |can |not |be |been |you |of |must ){0,3}(unknown|rejected|refused|denied|invalid|' +
      'not found|not exist|not valid|not accepted|not allowed|blocked|blacklisted|black list|unresolvable|unroutable|unrouteable|not resolve|not permitted|not ' +
      'authori|not verified|unverified|no mx|resolvable|banned|disallowed|illegal|not listed|unacceptable|forbidden|undeliverable|misformatted|is not|unavailable|' +
      'bad|not have|not known|does not)',
      '(invalid|unknown|bad|illegal|unresolvable|unroutable|unverified|non ?existent|blocked|rejected|denied|unauthori[sz]ed|not authori[sz]ed|banned|blacklisted|' +
      'unacceptable|undeliverable|forged|fake|refused|wrong|malformed) (envelope |email |mail )?(sender|from address|return path|reverse path|mail from|sending ' +
      'domain|envelope from|from domain)',
      'domain of (the )?sender',
      '(envelope )?sender (domain )?must',
      'domain name required for sender',
      'sender.s domain',
      'sender~ (does not exist|not exist|not resolve|not found|no mx|unable to|not valid|black ?list)',
      'unable to (verify|resolve|validate)~ (sender|return|mail from|your domain|from)',
      'null sender',
      'empty (envelope )?sender',
      'bounce messages? (are )?not accepted',
      'does not accept (null|bounces|empty)',
      'badmailfrom',
      'mail from (is |was )?(not|denied|rejected|refused|domain|must|command rejected)',
      'from (address|domain)~ (not|rejected|invalid|denied)',
      'fix ~ (from|sender|return)',
      'your (email |mail )?(address|domain)~ (is |has been )?(blocked|rejected|denied|black ?listed|not allowed|banned|refused)',
      '(i|we) do not accept (mail|messages|bounces|email)~ (from you|from your domain|from this sender)',
      'you are not (allowed|permitted|authori[sz]ed) to send (mail|email|messages)?~ (from|as|using|by)',
      'send(er)? as',
      'sender (is )?not',
      'not (allowed|accepted|permitted) as (a )?sender',
      'no mx (records? )?(for|found for|of) (sender|your|from)',
      'sender denied',
      'sender was rejected',
      'sender block',
      'rejected (because of )?(the )?sender',
      'blocked senders?',
      'user name does not match',
      'does not match (the )?(authenticated|authori)',
      'not owned by user',
      'backscatter',
      'freemail',
      'not authori[sz]ed from this',
      'domain of sender address',
      'address you (are )?sending from',
      'returned mail not accepted',
      'need(s)? fully qualified (sender|domain)'
    ],
    unless: [
      'spf|dkim|dmarc|sender policy framework|authentication',
      'reputation',
      '(sender|sending|source|from|client) (ip|host|server|mta|system)',
      'spam',
      'dnsbl',
      'reverse dns|ptr',
      '(grey|gray) ?list',
      'too many',
      'rate',
      'exceed',
      'relay',
      'not authori[sz]ed to (send|post)~ (recipient|group|list)',
      '(recipient|user)~ accept',
      'bulk',
      'sender id'
    ]
  },
  {
    class: 'norelaying',
    phrases: [
      'relay(ing)? ?(access )?(is |was |of |mail |for |to |from |through |has been |this ){0,3}(denied|not permitted|not allowed|prohibited|forbidden|rejected|' +
      'refused|disallowed|disabled|not enabled|not available|restricted|blocked|unauthori[sz]ed)',
      '(unable|not able|not permitted|not allowed|not authori[sz]ed|refuse[sd]?|denied|can ?not|will not|do not|does not|failed|attempt\\w{0,3}|trying|open|' +
      'forbidden|have permission|no|third party|not) (to )?(mail |for )?relay',
      '(relaying|relay) (is )?(not|denied)',
      'relay (attempt|access|not|prohibited|operation|through|mail|restriction|rejected|refused|for)',
      'relaying',
      'not in (my|the|our) list of (allowed )?(rcpthosts|domains|hosts)',
      'rcpthosts',
      'not (a |an )?(local|hosted|relay|gateway|allowed) (domain|relay|host|gateway|recipient)',
      'domain (is )?not (local|hosted|handled|served|ours|here|accepted|configured|allowed|in my)',
      'we do not (accept mail for|handle mail|relay|host|serve)',
      'not (accept|accepting|handle|handling|host|serving|responsible for) (mail|email|messages)? ?(for|to) (this|that|the|your|any)? ?domain',
      'you must (check|pop|get|retrieve|first)~ (mail|pop|email)',
      'pop before smtp',
      'check (your |for )?(mail|email|pop) (first|before)',
      'not an open relay',
      'insecure mail relay',
      'mail for this domain (is )?not',
      'domain is not my business',
      'message can not be relayed',
      'non local (email )?(recipient|address|domain)',
      'local (recipients|delivery|domains|users) only',
      'invalid (destination )?routing',
      'address not (local|ours)',
      'not a gateway',
      'source route',
      '(i|we) (can ?not|do not|will not) (deliver|handle|take) (mail|email|messages) for',
      '(use|using) (me|us|this server)~ as an? ?relay'
    ],
    unless: [
      'dnsbl',
      'black ?list',
      'open relay ~(black|list|data|block)',
      'possible open relay',
      'relay~ (reputation|dmarc)',
      'dkim|spf',
      'spam',
      'greylist|grey listed'
    ]
  },
  {
    class: 'failedstarttls',
    phrases: [
      '(starttls|tls|ssl)~ (fail|error|not available|unavailable|handshake|aborted|refused|negotiat|could not|disabled|timeout)',
      'tls not available',
      'can ?not start tls',
      '(failed|unable|can ?not|error) (to )?(start|initiate|initiali[sz]e|establish|in|negotiate)~ (starttls|tls|ssl)',
      'handshake (failure|failed)',
      'certificate~ (verif|fail|not trusted|untrusted|expired|mismatch|invalid|not verified|unverified)',
      '(untrusted|unverified|invalid) certificate',
      '(starttls|tls|ssl)( encryption| connection| session)? ?(is |are )?(required|needed|mandatory)',
      'tls (was )?not offered',
      'no (shared cipher|tls)',
      'server certificate',
      '(must|need to|please|requires?|have to)~ (issue |use |start |support )?(a |the )?(starttls|tls|ssl)',
      'dane|tlsa',
      'mta sts|sts policy'
    ]
  },
  {
    class: 'securityerror',
    phrases: [
      'authentication (is )?(required|needed|failed|failure|unsuccessful|credentials|rejected|mechanism|exchange|not enabled|disabled|is not|error)',
      'auth(entication)? (required|failed|failure)',
      '(must|need to|please|required to|requires?|should|have to)~ (authenticat\\w{1,4}|log ?in|encrypt\\w{0,5}|auth\\b)',
      '(encryption|secure connection|smtp auth|smtp authentication)( encryption| connection| protocol)? ?(is |are )?(required|needed|mandatory)',
      'requires? (a )?(encrypt\\w{0,5}|authenticat\\w{0,5}|secure|smtp auth)',
      'user (is )?not authenticated',
      'not authenticated',
      '(invalid|bad|incorrect|wrong|unknown) (login|password|credentials|username|user name|authentication)',
      'username and password',
      'login (failed|denied|incorrect|fail)',
      'smtp auth',
      'sasl',
      'access denied[:,]? authent',
      'insufficient (security|authenti|authori|permission)',
      'cryptographic',
      'encryption (needed|required)',
      'security (policy|violation|risk|error|reason|threat|issue|check|failure|problem)',
      'potential security',
      'phish',
      'malicious',
      'dangerous',
      '5\\.7\\.57',
      'too weak',
      'application specific password',
      'web login required',
      'tls version',
      'unencrypted',
      'insecure',
      'account is not verified',
      'unauthori[sz]ed (access|connection|user|host|client)',
      'authori[sz]ation (failed|required|failure)',
      'suspicious (activity|attachment|content|link|url)',
      'forbidden for security'
    ],
    unless: [
      'spf|dkim|dmarc|domainkey|sender policy',
      '(does not pass|unauthenticated|not authenticated (email|mail|messages))',
      'virus|malware',
      'bulk',
      'senders? must (auth|be auth)',
      'message authentication',
      'spam',
      'sender authentication',
      'authentication checks?',
      'authentication[- ]results',
      'email authentication',
      'mail authentication'
    ]
  }
]

/** Who our machines are taken for. */
export const STANDING: readonly Rule[] = [
  {
    class: 'virusdetected',
    phrases: [
      'virus',
      'malware',
      'trojan',
      'infected',
      'clamav',
      '\\bworm',
      'ransomware',
      'infection',
      'eicar',
      'spyware',
      'malicious (code|software|content|attachment|file|executable)',
      'w32[/.]'
    ],
    unless: [
      'anti ?virus (temporar|is not|scanner (temporar|fail|not|error|unavail|problem))',
      '(scan|scanner|scanning|clamav|clamd|check) ~(error|fail|unavailable|timeout|problem|temporar)',
      'spam or virus',
      'spam (and|/|&) ?virus',
      'anti ?spam (and|/|&) ?anti ?virus'
    ]
  },
  {
    class: 'authfailure',
    phrases: [
      '\\bspf\\b',
      'dkim',
      'dmarc',
      'domainkeys?',
      'sender policy framework',
      'sender ?id',
      'openspf',
      '(un|not )authenticated (email|mail|messages|sender)',
      'arc (seal|validation|chain)',
      '(sender|email|message|mail|domain|multiple) authentication',
      'authentication checks?',
      'adsp',
      'not (an? )?(authori[sz]ed|permitted|designated|allowed) (sender|mail server|mailserver|host|ip|server)s? (for|of|to send)',
      'is not (authori[sz]ed|allowed|permitted|designated) to (use|send)~ (from|in mfrom|for|on behalf|domain|as)',
      'does not designate',
      'spf ?(check|record|fail)',
      'required authentication level',
      'alignment',
      'spoof',
      'forged',
      'impersonat',
      'rejected (per|due to|by)~ (dmarc|policy of)',
      'unauthenticated',
      'you are using my domain',
      'own domain',
      'pretend'
    ],
    unless: ['dkim(1)? (timeout|temporar)', 'helo', 'hours? of']
  },
  {
    class: 'requireptr',
    phrases: [
      'reverse ?(dns|lookup|hostname|host|name|mapping|map|dns lookup|ip|address|resolution|entry|record)',
      '\\bptr\\b',
      'r ?dns\\b',
      'in addr\\.? ?arpa',
      'can ?not find (your|a|the)? ?(reverse )?host ?name',
      '(your|client|sending|connecting|the) (ip|host|server|client|ip address|mail server|hostname|machine|address)~ (has no|does not have a|without|lacks|not ' +
      'have|no|missing) (valid |reverse |a valid |proper |a )?(dns|ptr|hostname|reverse|name|host name|rdns)',
      '(no|missing|invalid|bad|mismatched|generic|inconsistent|not matching|wrong|lack of) (or no |or missing |valid |matching )?(dns )?(ptr|reverse)',
      'can ?not resolve (your|the) (ip|address|hostname|host|client|reverse)',
      '(could|can|does|did) not (resolve|find|lookup|be resolved)~ (ip to|ip address|your ip|your address|your host|your name|your client|client host)',
      'client host rejected: can ?not find',
      'unresolvable (client|ip|relay|host)',
      'fcrdns',
      'forward confirmed',
      'ip name lookup (failed|possibly forged)',
      'possibly forged',
      'generic (hostname|rdns|dns|host name)',
      'forward and reverse',
      'hostname does not (match|resolve)',
      'name lookup failed',
      'a record for your',
      'fix ~ (dns|ptr)',
      'ip ~ no (host ?)?name',
      'dns ?ptr',
      'resolve to (a )?(host ?name|valid)',
      'address to name',
      'client hostname',
      'your host ?name (could|can) not',
      'ip ~does not resolve',
      'dns (record|entry|entries)s? ~(your ip|for ip|sending)',
      'domain name resolution',
      'does not resolve (to|back)',
      'your (ip|host|server)~ (name|dns)'
    ],
    unless: [
      'dnsbl',
      'black ?list',
      'sender domain (name )?(does|is|not|must|could|can)',
      'from domain',
      'helo name',
      'your helo',
      'listed in',
      'helo command',
      'rbl'
    ]
  }
]
