import type { BounceClass } from '#streams/email/classes.ts'

/** What programs that write bounces say themselves, and no server would answer so. Asked before the general table of
 *  replies. */
export const GLOSSARY: Array<[RegExp, BounceClass]> = [
  [/no valid recipients for this MM|unrecogni[sz]ed o\/r name/i, 'userunknown'],
  [
    /(?:destination (?:computer|server|host|system)|host computer)[^.]{0,60} (?:was|could) not (?:be )?found/i,
    'hostunknown'
  ],
  [
    /as (?:the|their) domain (?:is|was) (?:invalid|unknown|not found)|name or service not known|DNS Error: Domain name not found/i,
    'hostunknown'
  ],
  [
    /(?:not|undeliver\w+)[^.]{0,30} (?:with)?in (?:the time limit|\d{1,3} (?:days?|hours?|minutes?))|delivery failed \d{1,3} attempts/i,
    'expired'
  ],
  [/(?:has been|was) in the queue too long/i, 'expired'],
  [
    /(?:could not be delivered|cannot send message|unable to deliver (?:this|the|your) message) (?:after|for|within) \d|gave up after \d/i,
    'expired'
  ],
  [/\d{1,3} unsuccessful (?:delivery )?attempts|maximum (?:retry|queue) (?:time|age|interval)/i, 'expired'],
  [
    /did not accept our requests to connect|destination computer (?:is|was) not (?:reachable|operating|responding)/i,
    'networkerror'
  ],
  [/mail\/help\/bulk_mail|your spam firewall|blocked by our spam firewall/i, 'spamdetected'],
  [/account is temporarily limited|administrativ\w{0,6} disabled/i, 'suspend'],
  [/group you tried to contact/i, 'rejected'],
  [/only (?:subscribers|members|list members) (?:may|can|are allowed to) (?:post|send)/i, 'filtered'],
  [
    /not (?:allowed|permitted|authorized) to (?:post|send|submit)[^.]{0,40} (?:list|group)|posting to this list is (?:restricted|closed)/i,
    'filtered'
  ],
  [
    /пользователь не (?:найден|существует|зарегистрирован)|(?:адресат|получатель|ящик) не (?:найден|существует)|нет такого (?:пользователя|ящика|адреса)/i,
    'userunknown'
  ],
  [
    /почтовый ящик[^.]{0,40}(?:переполнен|заполнен)|превышена квота|превышен (?:размер|объ[её]м) (?:почтового )?ящика/i,
    'mailboxfull'
  ],
  [
    /(?:keine|geen|aucune) (?:verbind|connexion)\S{0,4} (?:zum|met|avec)|(?:conectar|connettersi|connecter|podłączyć) (?:con|ao|al|au|się)|連接失敗|连接失败/i,
    'networkerror'
  ],
  [
    /(?:speicher|postfach)\S{0,12} ?(?:grenze|limit|kontingent|größe)[^.]{0,40}(?:erreicht|überschritten)|speichergrenze/i,
    'mailboxfull'
  ],
  [/bo[îi]te aux lettres[^.]{0,40} (?:sa limite|satur)/i, 'mailboxfull'],
  [
    /(?:superado|excedido|sobrepasado) (?:la|su) (?:cuota|capacidad)|(?:sin|sem) espa[cç][io]o?[^.]{0,20} (?:buz[oó]n|caixa)/i,
    'mailboxfull'
  ],
  [/przekroczon\S{1,3} (?:limit|pojemność)|překročen\S{0,2} kvót/i, 'mailboxfull'],
  [
    /postbo(?:ks|x)\S{0,4} er full|a postafiók[^.]{0,20}(?:megtelt|tele)|hộp thư (?:đã )?đầy|صندوق البريد ممتلئ/iu,
    'mailboxfull'
  ],
  [/largest message (?:that )?(?:can|may|will)|메일 용량이 너무/i, 'mesgtoobig'],
  [
    /no se (?:encontró|ha encontrado|encuentra) (?:el|al) (?:destinatario|usuario)|(?:adres|account)\S{0,3} bestaat niet/i,
    'userunknown'
  ],
  [/tuntematon vastaanottaja|ismeretlen (?:felhasználó|címzett)/i, 'userunknown'],
  [
    /користувача не (?:знайдено|існує)|άγνωστος (?:χρήστης|παραλήπτης)|找不到(?:收件人|收件者|用户|使用者)|該当する(?:ユーザ|受信者|アドレス)[^。]{0,10}(?:いません|ありません|存在しません)/iu,
    'userunknown'
  ],
  [
    /tài khoản không tồn tại|(?:pengguna|akun) tidak (?:ditemukan|ada)|المستخدم غير موجود|(?:המשתמש|הנמען) לא קיים/iu,
    'userunknown'
  ],
  [/找不到(?:域名|網域|主机)/i, 'hostunknown'],
  [
    /zustellung[^.]{0,40} tagen[^.]{0,20}aufgegeben|expirou o (?:tempo|prazo)|tempo massimo (?:superato|scaduto)/i,
    'expired'
  ]
]

/** Sentences that greet, guess at causes or advise. They would pass for a diagnosis. */
export const BOILERPLATE: RegExp[] = [
  /^.{0,80}(?:is|are) usually due to a mis-?configured account[^]{0,400}?too large\.$/gim,
  /^(?:For further assistance|If you do so, please|Please,? (?:reply|send|forward|contact|direct)|You can delete|If you (?:require|believe|feel|have|need)).{0,200}$/gim,
  /^.{0,40}(?:in case of|wenden sie sich|contact your (?:administrator|postmaster|system)|problem report|your own text from the attached|not need to resend|helpdesk).{0,160}$/gim,
  /^\s{0,8}(?:Subject|Sujet|Betreff|Asunto|Oggetto|Assunto|Тема|件名|主题|主旨)[ \t]?[:：].{0,300}$/gim,
  /^(?:Arrival|Received|Sent|Date|From|Message-?id|To)[ \t]?: .{0,200}$/gim,
  /^(?:(?:Final|Original)-Recipient|Action|Status|(?:Reporting|Remote|Received-From)-MTA|Arrival-Date|Last-Attempt-Date|Content-[\w-]{2,30}|MIME-Version)[ \t]?:.{0,300}$/gim,
  /^(?:Mail delivery failed: returning message to sender|Returned mail: see transcript for details)$/gim,
  /^(?:Undeliver\w+ (?:Mail|Message)(?: Returned to Sender)?|failure notice|Delivery Status Notification(?: ?\(\w+\))?)$/gim,
  /^(?:Mail )?Delivery (?:failure|failed|error|report)$/gim,
  /^.{0,20}(?:the number and frequency|of delivery attempts are determined|been removed from the mail queue|after one or more unsuccessful).{0,120}$/gim,
  /^.{0,60}(?:message is automatically generated|automatically generated|created automatically|do not reply|nicht antworten).{0,160}$/gim,
  /^.{0,40}(?:this is a permanent error|following address(?:\(es\)|es)? failed|i've given up).{0,120}$/gim,
  /We recommend contacting the other email provider for further information[^.\n]{0,80}\.?/gi,
  /Google tried to deliver your message, but it was rejected by the recipient domain\.|rejected by the server for the recipient domain/gi,
  /^\s{0,8}Technical details of (?:the |this )?(?:permanent|temporary) failure:?/gim,
  /^.{0,12}(?:unable|not able) to deliver (?:your |this |the )?(?:message|mail)s?(?: to)?(?: the following (?:address(?:\(es\)|es)?|recipients?))?.?$/gim,
  /^.{0,40}(?:did not reach (?:some or all|the following)|could not be reached:|has failed to these recipients|was not delivered to:|were not delivered to).{0,80}$/gim,
  /^(?:Delivery to the following recipients? (?:has )?(?:failed|been)|Delivery has failed|Delivery failed|Message delivery (?:has )?failed)\b.{0,60}$/gim,
  /^MailEnable: Message delivery has failed\b.{0,60}$/gim,
  /delivery failed; will not continue trying|^\s{0,60}UNDELIVERABLE MAIL$|^Your message to the following recipients? cannot be delivered:?$/gim,
  /^.{0,40}(?:to accept it \(the error message is reproduced below\)|because the destination computer refused|I'm sorry to have to).{0,120}$/gim,
  /^.{0,40}(?:wasn't able to deliver your message|could not be delivered to (?:one|all|some|the following|following)).{0,120}$/gim,
  /^\s{0,8}(?:be delivered to one or more|recipients\. (?:It's|This is)|its recipients).{0,80}$/gim,
  /^.{0,60}(?:is listed in the|see the attached|the following error report|were given to explain|to you as postmaster|the error that the other server returned was:?$).{0,60}$/gim,
  /^.{0,60}(?:could not be delivered\.|couldn't be delivered\.|wasn't delivered to \S{3,120} because)$/gim,
  /SMTP error from (?:a )?remote (?:mail )?server(?: (?:after|for|during)[^:\n]{0,80}(?::<[^>\n]{0,320}>[^:\n]{0,40})?)?:?/gim,
  /^\s{0,8}host:? [^\s:]{1,255}(?: ?\[[^\]\n]{1,60}\])?:?[ \t]*$/gim,
  /Remote SMTP server has rejected address|^\s{0,8}Error Type: SMTP$|^.{0,40}issued an error\.$/gim,
  /Microsoft Exchange will not try to redeliver this message for you\.|Please check the (?:recipient's )?e-?mail address[^.\n]{0,60}\./gim
]
