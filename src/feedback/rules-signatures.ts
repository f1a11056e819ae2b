import type { Rule } from './rules.ts'

/** What single makers and providers say in words, numbers or codes of their own: as good as a signature, so it goes
 *  first. */
export const SIGNATURES: readonly Rule[] = [
  // Microsoft Exchange and Exchange Online.
  {
    class: 'userunknown',
    phrases: [
      'resolver.adr.(ex)?recip(ient)?notfound',
      'resolver.adr.(invalid|badprimary|usertombstone)',
      'resolver.fwd.notfound',
      'recipnotfound',
      'recipientnotfound'
    ]
  },
  { class: 'userunknown', status: ['4.1'], phrases: ['recipient address rejected: access denied'] },
  { class: 'userunknown', phrases: ['as201806281', 'as ?201806281'] },
  { class: 'exceedlimit', phrases: ['resolver.rst.recip(ient)?sizelimit'] },
  { class: 'mesgtoobig', phrases: ['resolver.rst.sendsizelimit', 'sizelimit exceeded'] },
  { class: 'securityerror', phrases: ['resolver.rst.authrequired', 'client was not authenticated'] },
  {
    class: 'filtered',
    phrases: [
      'resolver.rst.(notauthorized|restricted|restrictedtogroup|recipientrestricted)',
      'not authorized to send to the recipient or distribution list',
      'delivery is restricted'
    ]
  },
  { class: 'toomanyconn', phrases: ['resolver.adr.reciplimit', 'reciplimit'] },
  {
    class: 'networkerror',
    phrases: [
      'smtpsend.dns.mxloopback',
      'routing.loopdetected',
      'resolver.loop',
      'mxloopback',
      'loopdetected',
      'hop count exceeded'
    ]
  },
  {
    class: 'hostunknown',
    phrases: [
      'smtpsend.dns.nonexistentdomain',
      'dns.nonexistentdomain',
      'infonodata',
      'infodomainnonexistent',
      'dns domain ~ does not exist'
    ]
  },
  { class: 'failedstarttls', phrases: ['smtpsend.tls', 'tls negotiation failed'] },
  { class: 'expired', phrases: ['queue.expired'] },
  {
    class: 'mailboxfull',
    phrases: [
      'quotaexceededexception',
      'shutoffquotaexceeded',
      'storedrv.deliver. ?mailbox full',
      'overquotaexception',
      'quota exceeded exception'
    ]
  },
  {
    class: 'suspend',
    phrases: [
      'storedrv.deliver~ account disabled',
      'accountdisabledexception',
      'mailboxdisabledexception',
      'mailbox disabled exception'
    ]
  },
  { class: 'contenterror', phrases: ['cat.invalidcontent', 'invalidcontent', 'conversionfailed'] },
  {
    class: 'filtered',
    phrases: [
      'sendernotauthenticatedfor(group|mailbox)',
      'delivery restriction check failed',
      'sender not authenticated for (mailbox|group)',
      'sender not in ~allowed senders'
    ]
  },
  { class: 'rejected', phrases: ['bad outbound sender'] },
  { class: 'systemerror', phrases: ['routing.noconnectorforaddresstype', 'mapi ?exception'], unless: ['spam'] },
  {
    class: 'blocked',
    phrases: [
      'banned sending ip',
      'oba?-001',
      'part of their network is on our block list',
      's3150',
      's3140',
      's3115',
      'as(1410|3150|3130|3140)\\b',
      '(sc|dy|col|snt|bay)-00\\d'
    ]
  },
  { class: 'spamdetected', phrases: ['because of content'] },
  { class: 'speeding', phrases: ['ou-00\\d', 'rp-00\\d', 's77719'] },
  {
    class: 'authfailure',
    phrases: [
      'sending domain ~ does not meet the required authentication level',
      'does not pass dmarc verification',
      'access denied, sending domain'
    ]
  },
  { class: 'blocked', phrases: ['access denied, banned send(er|ing) ip'] },
  { class: 'rejected', phrases: ['access denied, banned sender'] },
  { class: 'norelaying', phrases: ['tenantattribution', 'relay access denied'] },
  {
    class: 'speeding',
    phrases: [
      'has exceeded ~threshold',
      'server busy. please try again later from',
      'please try again later ~ as(77|78)',
      'submissionquotaexceeded',
      'your message can ?not be sent ~ exceeded',
      'traffic not accepted from this ip'
    ],
    unless: ['server busy ~ (disk|connections)', 'traffic not accepted']
  },
  { class: 'badreputation', phrases: ['traffic not accepted from this ip'] },

  // Google.
  {
    class: 'userunknown',
    phrases: [
      'p=nosuchuser',
      'the email account that you tried to reach does not exist',
      'account that you tried to (contact|reach) does not exist'
    ]
  },
  {
    class: 'suspend',
    phrases: ['p=disableduser', 'p=inactiveuser', 'account that you tried to (contact|reach) is (disabled|inactive)']
  },
  {
    class: 'mailboxfull',
    phrases: [
      'p=overquota',
      'account that you tried to (contact|reach) is over ?quota',
      'inbox is out of storage space'
    ]
  },
  {
    class: 'speeding',
    phrases: ['p=receivingrate', 'is receiving (mail|email) (at a rate|too quickly)', 'receiving mail too quickly']
  },
  {
    class: 'speeding',
    phrases: [
      'unusual rate of ~',
      'has been temporarily rate limited',
      'mail sent from your ip( address)? has been ~rate limited'
    ],
    unless: ['has been blocked', 'has temporarily been blocked', 'ip reputation']
  },
  {
    class: 'badreputation',
    phrases: ['(very )?low reputation of', 'due to the very low reputation', 'p=unsolicitedratelimiterror']
  },
  {
    class: 'blocked',
    phrases: [
      'unusual rate of ~',
      'mail sent from your ip address has been( temporarily)? blocked',
      'p=unsolicitedipderror',
      'p=ipblock'
    ]
  },
  {
    class: 'spamdetected',
    phrases: ['p=unsolicitedmessageerror', 'likely (unsolicited|suspicious)', 'detected that this message is likely']
  },
  { class: 'securityerror', phrases: ['p=blockedmessage', 'blocked because its content presents a potential'] },
  {
    class: 'requireptr',
    phrases: ['p=ptrrecord', 'does not have a ptr record', 'sending ip does not match the ip address of the hostname']
  },
  { class: 'authfailure', phrases: ['p=unauthenticated', 'p=(spf|dkim|dmarc)'] },
  { class: 'notcompliantrfc', phrases: ['p=rfcmessagenoncompliant', 'p=(multiplefrom|missingfrom|messageheaders)'] },
  { class: 'hostunknown', phrases: ['p=(bad|nomatching|badrcpt)domain'] },
  { class: 'policyviolation', phrases: ['p=notallowed', 'domain policy ~prevents'] },
  { class: 'filtered', phrases: ['has a policy that prohibited the mail that you sent'] },

  // Yahoo, AOL, Verizon; Yahoo! Japan.
  {
    class: 'userunknown',
    phrases: [
      'dd this user does not have',
      'user does not have an? ~ account',
      'dd requested mail action aborted, mailbox not found'
    ]
  },
  {
    class: 'suspend',
    phrases: [
      'dd ~ disabled',
      'account has been disabled or discontinued',
      'this mailbox is disabled',
      'blocked due to (inactivity|non ?use|non ?payment)',
      'mailbox is disabled 554'
    ]
  },
  {
    class: 'blocked',
    phrases: [
      'tss0?3',
      'ts03',
      'permanently deferred',
      'bl2[13]\\b',
      'vs[12]0 ?ip',
      'excessive unknown recipients',
      'cnct-fail',
      'dynt:.\\d',
      'rly:(b|ch|sn|bd|nw|cs)\\d',
      'hvu:b',
      '421 4\\.16\\.5'
    ]
  },
  { class: 'requireptr', phrases: ['dns:(nr|b\\d)'] },
  {
    class: 'badreputation',
    phrases: [
      'tss?0?[124-9]',
      'ts0[124-9]',
      'user complaints',
      'vs(0\\d|99) ?(ip|mf)?',
      '(dyn|con)n?:[tb]\\d',
      'unexpected volume'
    ]
  },
  {
    class: 'policyviolation',
    phrases: ['dd message not accepted for policy reasons', 'ph01', 'not accepted for policy reasons', 'au01'],
    unless: ['dmarc']
  },

  // Chinese apps: Netease, Tencent. Their words before their letters.
  { class: 'userunknown', phrases: ['mailbox unavailable or access denied'] },
  { class: 'blocked', phrases: ['ip (is )?in (black|block) ?list', 'in blacklist, rp'] },
  {
    class: 'spamdetected',
    phrases: ['(dt|mi):s(pm|pb|re)', 'mail content denied', 'dt:spm'],
    unless: ['spf|dkim|dmarc']
  },
  { class: 'rejected', phrases: ['dt:sum', 'mail from must equal', 'mi:(nhs|suf)'] },
  { class: 'authfailure', phrases: ['mi:(spf|dma|dkim|dmarc)', 'mail is rejected by (spf|dkim|dmarc)'] },
  { class: 'blocked', phrases: ['(dt|mi):(rbl|bl|ipb|esb)', 'hl:(ihu|ihb)'] },
  { class: 'badreputation', phrases: ['hl:rep', 'rp:rep'] },
  { class: 'toomanyconn', phrases: ['hl:icc', 'rp:(ccl|trc)$'] },
  {
    class: 'speeding',
    phrases: [
      '(rp|hl|mi|dt):(cel|ccl|qrc|trc|drc|ifc|mep|frl|gry|dmc|ipr|tmp)',
      '(ip|domain|sender|connection|recipient|mail) frequency (is )?limited',
      'frequency (is )?limited'
    ]
  },
  { class: 'spamdetected', phrases: ['suspected bounce attacks', 'antispam (bat|ip|sender)', 'behaviou?r spam'] },
  { class: 'filtered', phrases: ['rejected by (the )?recipients?$', 'rejected by recipients?\\b'] },

  // French, German, American apps with numbered replies.
  { class: 'userunknown', phrases: ['(ofr|lpn)[a-z\\d ]{0,8}_?416', 'ofr ?204 416'] },
  { class: 'mailboxfull', phrases: ['(ofr|lpn)[a-z\\d ]{0,8}417'] },
  { class: 'toomanyconn', phrases: ['(ofr|lpn|lpnaaa|ofr004|lpn000|weasel)[a-z\\d ]{0,8}104\\b'] },
  { class: 'spamdetected', phrases: ['(ofr|lpn)[a-z\\d ]{0,8}50[56]', 'aup ?# ?(cnt|con|bl|in|ib)', 'aup ?#cxsnd'] },
  {
    class: 'blocked',
    phrases: [
      '(ofr|lpn)[a-z\\d ]{0,8}(103|108|109|5(10|13|15))',
      'aup ?# ?(i|o|1|cdbl|mltrbl|poltcd|rbl|res)',
      'toso?a?@?rx',
      'ip=~ a problem occurred',
      'a problem occurred~ ask your postmaster',
      'dialup ?/ ?transient ip',
      'bl0000\\d\\d'
    ]
  },
  { class: 'speeding', phrases: ['rl0000\\d\\d'], unless: ['sessions', 'connections'] },
  { class: 'suspend', phrases: ['archived recipient', '(ofr|lpn)[a-z\\d ]{0,8}401\\b'] },
  { class: 'rejected', phrases: ['aup ?# ?(snd|sndr)', 'sender rejected~ aup'] },

  { class: 'badreputation', phrases: ['rate limited due to ip reputation'] },

  // Makers of servers.
  { class: 'syntaxerror', phrases: ['syntactically invalid'] },
  { class: 'userunknown', phrases: ['no valid recipients for this mm', '^[45\\d. ]{0,12}not found[.]?$'] },

  // Makers of filters.
  { class: 'userunknown', phrases: ['no such user ~ ?psmtp', 'bh[ -]?exm', 'not our customer'] },
  {
    class: 'blocked',
    phrases: [
      'pdr01\\d\\d',
      'blocked( -| by) see ~(proofpoint|ipcheck|support)',
      'ironport',
      'sender ?base',
      'connection rejected by policy',
      'you are not allowed to connect',
      'hold for abusix'
    ]
  },
  {
    class: 'spamdetected',
    phrases: [
      'detected as spam by mimecast',
      'cloudmark',
      'amavis~ ubes?',
      'rejected as spam by',
      'x ?ironport'
    ],
    unless: ['csi', 'cloudmark sender intelligence']
  },
  { class: 'blocked', phrases: ['cloudmark', 'csi (sus|listed|reputation)'] },
  {
    class: 'policyviolation',
    phrases: [
      'administrative prohibition',
      'envelope blocked',
      'hm0[78]',
      'rejected by header based',
      'cs01',
      'reject, banned',
      'reject, id=~ banned',
      'banned (name|file|attachment)'
    ],
    unless: ['virus', 'spoof']
  },
  { class: 'virusdetected', phrases: ['(reject|discarded), id=~ infected', 'infected: '] },
  { class: 'spamdetected', phrases: ['(reject|discarded), id=~ spam', 'reject, id=~ ubs'] },
  { class: 'notcompliantrfc', phrases: ['reject, id=~ bad ?header'] },

  // Amazon as a relay.
  {
    class: 'securityerror',
    phrases: [
      'email address (is )?not verified',
      'account is in the sandbox',
      'not subscribed to (the )?ses',
      'identities? failed the check'
    ]
  },
  {
    class: 'speeding',
    phrases: ['maximum sending rate exceeded', 'daily message quota exceeded', 'sending quota exceeded']
  },
  {
    class: 'suspend',
    phrases: [
      'address is on the (account )?suppression list',
      'account suppression list',
      'previously bounced address',
      'recipient ~suppression list',
      'amazon ses has suppressed'
    ]
  }
]
