/** A mail server's own way of saying no, for those that write no report part, or a poor one. `opening` is how its text
 *  is known, line by line; the rest only where reading the lines around an address would go wrong. */
export interface Form {
  name: string
  opening: RegExp
  /** Group 1 = an address, or a text with one in it; `gm`. */
  recipient?: RegExp
  /** Group 1 = the reason, when it stands elsewhere than around the address. */
  reason?: RegExp
  /** Words that others use, too: parcels come back as well. */
  common?: true
}

/** Written from what each program is documented or known to send. Order is of no account: what several know is read
 *  alike. */
export const FORMS: Form[] = [
  { name: 'qmail', opening: /^\s?Hi\. This is the .{1,60} (?:program|server|system) (?:at|on) /im },
  { name: 'qmail-sorry', opening: /I(?:'|’|&#39;)m afraid I (?:wasn't|was not) able to deliver your message/i },
  {
    name: 'qmail-later',
    opening: /^I(?:'m| am) (?:not going to try again; this message has been in the queue|still trying)/im
  },
  {
    name: 'yahoo',
    opening:
      /^(?:Message from|Sorry, we were unable to deliver your message|Unable to deliver message to the following address)/im
  },
  {
    name: 'exim',
    opening: anyOf('im', [
      /^\s{0,3}This message was created automatically by (?:the )?(?:mail|SMTP)/im,
      /^\s{0,3}A message that you (?:have )?sent (?:could not be delivered|has not yet been|contained)/im
    ])
  },
  { name: 'exim-de', opening: /^\s{0,3}(?:Diese Nachricht wurde automatisch|Eine von Ihnen gesendete)/im },
  {
    name: 'sendmail',
    opening:
      /^[ \t]{0,8}-{2,}\s?(?:The following addresses had|Transcript of|Transient non-fatal|Recipients of this|Failed addresses|Delivery error report)/im
  },
  { name: 'sendmail-said', opening: /^The original message was received at .{6,80}$/im },
  {
    name: 'postfix',
    opening:
      /^\s{0,3}(?:This is the .{0,60}(?:program|system|server|software|agent)? ?at host |This is the mail (?:system|delivery agent))/im
  },
  { name: 'postfix-sorry', opening: /I(?:'|’)m sorry to have to (?:inform|tell) you that/i },
  { name: 'smail', opening: /^\|?-{3,} ?(?:Message log|Failed addresses) follows?:/im },
  {
    name: 'exchange',
    opening:
      /^\s{0,8}(?:did not reach the following recipient|The following recipient(?:\(s\)|s) (?:could not|cannot) be reached|Your message did not reach some or all)/im
  },
  {
    name: 'exchange-report',
    opening: anyOf('im', [
      /^(?:Delivery has failed to these recipients|Generating server:|Diagnostic information for administrators)/im,
      /^Delivery to the following recipients? (?:or|has|was|failed)/im
    ])
  },
  {
    name: 'exchange-translated',
    opening: anyOf('im', [
      /^(?:Fehler bei der (?:Nachrichten)?zustellung|Échec de la remise|La remise a échoué|Error de entrega|No se pudo entregar|Errore di recapito|Falha na entrega)/im,
      /^(?:Ошибка доставки|Диагностические сведения|配信に失敗しました|配信できませんでした|传递失败|傳遞失敗|Diagnoseinformationen|Informations de diagnostic|Información de diagnóstico)/im,
      /^(?:Informações de diagnóstico|Informazioni di diagnostica|管理者向けの診断情報|用于管理员的诊断信息|系統管理員的診斷資訊|관리자용 진단 정보)/im
    ])
  },
  {
    name: 'microsoft365',
    opening: anyOf('im', [
      /^(?:Your message to .{3,120} (?:couldn't|could not|can't|wasn't) be(?:en)? delivered|.{1,120} (?:wasn't|couldn't be) found at |.{1,120} gave this error:)/im,
      /^Remote Server returned/im
    ])
  },
  { name: 'iis', opening: /^This is an automatically generated Delivery Status Notification/im },
  {
    name: 'notes',
    opening: anyOf('im', [
      /^\s{0,8}(?:was not delivered to:|wurde nicht zugestellt an|n'a pas été (?:remis|distribué) à|no se entregó a|не (?:был[аои]? )?доставлено:)/im,
      /^\s{0,8}(?:次のユーザーに(?:は)?配信できません|-{3,} ?Failure Reasons)/im
    ])
  },
  {
    name: 'groupwise',
    opening:
      /^\s{0,8}(?:The message that you sent was undeliverable to the following|The attached file had the following undeliverable recipient)/im
  },
  {
    name: 'courier',
    opening:
      /^\s{0,60}(?:This is a delivery status notification from|UNDELIVERABLE MAIL$|Your message to the following recipients? (?:cannot|could not))/im
  },
  {
    name: 'mdaemon',
    opening:
      /^(?:The attached message had (?:PERMANENT|.{0,20}) ?fatal|YOUR MESSAGE WAS NOT DELIVERED|Failed address:|--- Session Transcript)/im,
    recipient: /^Failed address(?:es)?:[ \t]*(\S{3,320})/gim
  },
  {
    name: 'imail',
    opening: anyOf('im', [
      /^(?:Unknown user: |User mailbox exceeds allowed size: |undeliverable to |Invalid final delivery userid: |Unknown host: |Delivery failed \d+ attempts)/im,
      /^(?:Body of message generated response:|User's mailbox is over quota: )/im
    ])
  },
  {
    name: 'mailenable',
    opening: /^\s{0,8}(?:Message could not be delivered to some recipients|Recipient: \[SMTP:)/im,
    recipient: /^\s{0,12}Recipient: \[SMTP:([^\]\s]{3,320})\]/gim
  },
  {
    name: 'hmailserver',
    opening: /^\s{0,8}(?:hMailServer sent: |Remote server \(.{1,60}\) issued an error|Error Type: SMTP)/im
  },
  {
    name: 'surgemail',
    opening:
      /^\s{0,8}(?:Your message cannot be delivered to the following|Message delivery (?:has )?failed|Failed to deliver message)/im
  },
  {
    name: 'communigate',
    opening: /^\s{0,8}(?:Failed to deliver to '|(?:SMTP|LOCAL|LIST|PIPE) module\(|Message .{1,40} delivery failed)/im,
    recipient: /^\s{0,8}Failed to deliver to '([^'\n]{3,320})'/gim
  },
  {
    name: 'mercury',
    opening:
      /^(?:The attached message has failed delivery|The following error report or|With the exception of|The message which you sent could not)/im
  },
  {
    name: 'kerio',
    opening:
      /^(?:Your message could not be delivered|Message could not be delivered|The following message could not be delivered)/im
  },
  {
    name: 'mailmarshal',
    opening: /^\s{0,8}(?:Could not be delivered because of|The following recipients were affected:)/im,
    recipient: /^\s{0,8}The following recipients were affected:\s{1,40}(\S{3,320})/gim
  },
  { name: 'interscan', opening: /^(?:Sent >>> |Received <<< |Unable to deliver message to )/im },
  { name: 'messagelabs', opening: /^I was unable to deliver your message to the following addresses/im },
  { name: 'mcafee', opening: /^\s{0,8}-{2,} ?The following addresses had delivery (?:problems|errors)/im },
  {
    name: 'intermail',
    opening: anyOf('im', [
      /^\s{0,3}(?:This Message was undeliverable due to|Each of the following recipients was rejected|The following recipients did not receive)/im,
      /^\s{0,3}(?:The user\(s\) account is |Your message (?:was|has been) (?:not delivered|rejected) (?:because|by))/im
    ])
  },
  { name: 'kddi', opening: /^\s{0,8}(?:Your mail sent on:|Could not be delivered to:|As their mailbox is full)/im },
  {
    name: 'trouble',
    common: true,
    opening: /^(?:We had trouble delivering your message|We're sorry\. There's a problem with the e-?mail address)/im
  },
  { name: 'ses', opening: /^An error occurred while trying to deliver the mail to the following recipients/im },
  {
    name: 'sendgrid',
    opening:
      /^(?:This is an automatically generated message from SendGrid|I'm sorry to have to tell you that your message was not able)/im
  },
  {
    name: 'gmail',
    opening: anyOf('im', [
      /^(?:Delivery to the following recipients? (?:failed permanently|has been delayed|failed)|Technical details of (?:permanent|temporary) failure)/im,
      /^\** ?(?:Address not found|Message (?:blocked|not delivered|too large)|Recipient inbox full|Delivery incomplete) ?\**$/im
    ])
  },
  {
    name: 'google-groups',
    opening: /^(?:We're writing to let you know that the group you tried to contact)/im,
    recipient: /group you tried to contact \(([^)\s]{1,320})\)/gim
  },
  { name: 'zoho', opening: /(?:, ERROR_CODE ?:|ResponseCode ?:|\[Status: Error, Address:)/ },
  {
    name: 'mailru',
    opening:
      /^(?:К сожалению, Ваше письмо|Это письмо создано автоматически|Сообщение не (?:может быть|было) доставлено|Письмо не доставлено|Ваше (?:сообщение|письмо) не)/im
  },
  {
    name: 'chinese',
    opening:
      /(?:您的邮件被退回|退信原因|系统退信|邮件无法送达|無法傳送|退信通知|无法投递|無法投遞|投递失败|发送失败|收件人(?:邮件)?地址.{0,120}不存在|寄信失敗)/
  },
  {
    name: 'japanese',
    common: true,
    opening:
      /(?:送信できませんでした|配[信送達]できませんでした|届きませんでした|届けられませんでした|配信エラー|配送エラー|あて先不明|宛先不明|お届けできません|配送に失敗|送達できません)/
  },
  {
    name: 'korean',
    opening:
      /(?:메일.{0,20}(?:전송|발송|배달)(?:되지|하지|에 실패|할 수 없|이 실패| ?실패)|수신자.{0,40}(?:없|존재하지))/
  },
  {
    name: 'german',
    common: true,
    opening: anyOf('i', [
      /nicht (?:[^\s.]{1,30} ){0,5}(?:zu(?:ge)?stell|übermitt|ausgeliefert|erreich)/i,
      /(?:(?:Zustellung|Übermittlung|Auslieferung|Nachricht).{0,80}(?:fehlgeschlagen|gescheitert|nicht möglich|zurückgewiesen|abgelehnt)|Unzustellbar)/i
    ])
  },
  {
    name: 'romance',
    common: true,
    opening: anyOf('i', [
      /n['’](?:a|ont) (?:pas |pu ){0,2}(?:pu |été )?(?:être )?(?:remi|délivr|distribu|livr|envoy|transmis|achemin)/i,
      /(?:impossible de |ne (?:peut|peuvent) (?:pas )?être |\bnon )(?:remi|remett|délivr|distribu|livr|envoy|transm|achemin|joindre)/i,
      /\bno (?:se )?(?:le )?(?:[^\s.]{1,12} ){0,3}(?:entreg|envi|llegó)/i,
      /\bnão (?:[^\s.]{1,12} ){0,4}(?:entreg|envi)/i,
      /(?:\bnon|\bimpossibile) (?:[^\s.]{1,12} ){0,4}(?:consegn|recapit)/i
    ])
  },
  {
    name: 'other-tongues',
    common: true,
    opening: anyOf('i', [
      /\bniet (?:[^\s.]{1,12} ){0,3}(?:bezorgd|afgeleverd|bereik)/i,
      /(?:kunde inte|kunne ikke|kan ikke|har (?:inte|ikke)) (?:[^\s.]{1,12} ){0,2}(?:lever|nå)|ei voitu toimittaa/i,
      /\bnie (?:[^\s.]{1,14} ){0,4}(?:dostarcz|doręcz)|ne(?:mohl|byl|lze|podařil)[^\s.]{0,4} (?:[^\s.]{1,12} ){0,3}doruč|nem (?:[^\s.]{1,14} ){0,2}kézbesít/i,
      /teslim edilemedi|iletilemedi|gönderilemedi|не (?:[^\s.]{1,14} ){0,3}достав|δεν (?:[^\s.]{1,14} ){0,3}παρ(?:αδ|έδ)|تعذر تسليم|không (?:thể )?(?:gửi|chuyển)/i
    ])
  },
  {
    name: 'verizon',
    opening:
      /^(?:Message could not be delivered to mobile|Error: No valid recipients for this MM|.{0,40}message.{0,40} to .{5,80} could not be delivered)/im,
    recipient: /^\s{0,8}To: *(\d{6,15}@\S{3,80})/gim
  },
  { name: 'james', opening: /^(?:Failed recipient\(s\):|Error message below:|Error message:)/im },
  {
    name: 'opensmtpd',
    opening:
      /^\s{0,8}(?:This is the MAILER-DAEMON, please DO NOT REPLY|An error has occurred while attempting to deliver a message|the following list of recipients:)/im
  },
  {
    name: 'dragonfly',
    opening: /^(?:This is the DragonFly Mail Agent|There was an error delivering your mail to)/im,
    recipient: /There was an error delivering your mail to <([^>\s]{3,320})>/gim
  },
  { name: 'powermta', opening: /^(?:Hello, this is the mail server on|I am sending you this message to inform you)/im },
  { name: 'activehunter', opening: /^>>> \S+@\S+ <\S+@\S+>$/im },
  {
    name: 'mfilter',
    opening: /^-{3,} ?server message$/im,
    reason: /^-{3,} ?server message\n([^]{1,2000}?)(?:^-{3,}|(?![^]))/im
  },
  { name: 'mailfoundry', opening: /^(?:Unable to deliver message to: <|Delivery failed for the following reason)/im },
  {
    name: 'pmdf',
    opening:
      /^(?:This report relates to a message you sent with the following|Your message (?:cannot be|is being|has been enqueued))/im,
    recipient: /^\s{1,8}Recipient address:\s{1,4}(\S{3,320})/gim
  },
  {
    name: 'surfcontrol',
    opening: /^(?:Your message could not be sent\.|A transcript of the attempts to send the message)/im,
    recipient: /^Addressed To:\s{0,8}(\S{3,320})/gim
  },
  {
    name: 'xmail',
    opening: /^(?:\[<0?\d>\] )(?:XMail bounce|Error sending message|The reason of the delivery failure)/im,
    recipient: /(?:XMail bounce: Rcpt=\[|^Rcpt To:\s{1,8}<)([^\]>\s]{3,320})/gim
  },
  {
    name: 'smartermail',
    opening: /^\s{0,8}(?:Could not deliver message to the following recipient|Failed Recipient:)/im,
    recipient: /^\s{0,8}Failed Recipient:\s{0,4}(\S{3,320})/gim
  },
  { name: 'mmdf', opening: /^\s{0,8}Your message could not be delivered to ?\n? ?'/im },
  { name: 'zmailer', opening: /^(?:This is a collection of reports about email delivery|FAILED:)/im },
  {
    name: 'listserv',
    opening: /^(?:The enclosed (?:message|mail file)|Error-for:|An error was detected while processing the enclosed)/im,
    recipient: /^Error-for:\s{0,4}(\S{3,320})/gim
  },
  {
    name: 'x400',
    opening:
      /^(?:Message delivery failed|Your message was not delivered to|UNDELIVERED RECIPIENT|Delivery report for)/im
  },
  {
    name: 'mimecast',
    opening: /^This is a delivery failure notification message/im,
    recipient: /email address ?:\s{1,4}-- (\S{3,320})/gim
  },
  { name: 'failed-recipients', opening: /^-{2,} ?(?:Failed Recipients|Non-delivered information)/im },
  { name: 'ironport', opening: /^The following message to .{3,320} was undeliverable/im },
  { name: 'apology', common: true, opening: /^Sorry[.,!] (?:Your|the) message/im },
  {
    name: 'merak',
    opening:
      /^(?:Your message (?:was|has) not (?:been )?delivered to (?:the )?following|The message could not be delivered to the following)/im
  },
  { name: 'eims', common: true, opening: /^The (?:message|mail) (?:could not be|was not) delivered to/im },
  {
    name: 'list-closed',
    opening:
      /^\s{0,4}(?:You are not allowed to post to this mailing list|Sorry, only subscribers may post|Posting to this list is restricted)/im
  },
  {
    name: 'spam-firewall',
    opening:
      /^(?:was blocked by our Spam Firewall|The email you sent with the following subject has NOT BEEN DELIVERED|Your message to:)/im
  },
  {
    name: 'plain-words',
    common: true,
    opening: anyOf('im', [
      /^.{0,80}(?:could not|could'nt|can ?not|can't|couldn't|wasn't|was not|were not|not|unable to|failed to) (?:be )?(?:been )?(?:\w{1,14} ){0,3}(?:deliver|sen[dt]\b|reach)/im,
      /^.{0,80}(?:undeliver|returned to sender|delivery (?:has )?fail|delivery to the following)/im,
      /^.{0,80}(?:has been (?:automatically )?(?:rejected|refused|returned|bounced)|was (?:automatically )?(?:rejected|refused|blocked))/im
    ])
  }
]

/** One pattern of several, each of which is a line of its own. */
export function anyOf (flags: string, patterns: RegExp[]): RegExp {
  return new RegExp(patterns.map(pattern => pattern.source).join('|'), flags)
}
