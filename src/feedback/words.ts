import { anyOf } from './forms.ts'

/** From lines of servers: local parts and display names alike. */
export const DAEMONS = anyOf('i', [
  /mailer[ ._-]?daemon|mail[ _-]?daemon|\bpost[_-]?master|mail(?:er)? ?deliver|deliver[ys]? ?(?:sub)?system|mail ?system|\bmailer\b|mail ?admin|system ?administrator|^"?sysadmin/,
  /returned mail|^[^<@]{0,80}\bbounces?\b|mail router|mail ?server|delivery ?(?:notification|status|report|agent|service)/,
  /systemadministrator|exchange ?server|microsoftexchange|mdaemon|\bsmtp(?:32)?\b|internet mail|courier|bounce[ds]?@|administrateur|administrador/,
  /Почтовая|администратор|メール(?:配送|配信|システム)|系统管理|邮件系统|郵件系統|メーラ|undeliver/
])

/** Subjects of reports, at the beginning; languages as mail servers write them. */
export const SUBJECTS = new RegExp(`^(?:\\[[^\\]]{1,30}\\])?\\W{0,6}(?:${[
  'ndn:', 'ndr:', 'non-delivery',
  'failure notice', 'failure delivery', 'fail(?:ed|ure)? (?:to|of) deliver',
  'deliver[yi]\\w* (?:status|failure|failed|report|error|problem|has failed|unsuccessful|notification|delayed|incomplete|reports? about|fail)',
  '(?:permanent|temporary|final|transient) (?:delivery|failure|error)', 'undeliver', 'un-?deliver', 'returned (?:mail|message|to sender|e-?mail)',
  'return(?:ing|ed)? (?:mail|message|to)', 'mail (?:delivery|could not|system error|error|failure|not deliver|undeliver|return|status)',
  'message (?:delivery|status|could not|not deliver|undeliver|you sent|delayed|blocked|returned|rejected|send failure)', 'non-?deliver', 'not deliver', 'unable to deliver',
  'could not (?:be deliver|send|deliver)',
  'warning: (?:message|could not|your)', 'warning - ', 'user unknown', 'unknown (?:user|recipient|address)', 'bounced? ?(?:mail|message|e-?mail)', 'nondeliverable',
  'postmaster notify', 'error sending', 'there was an error sending',
  'your (?:message|mail|e-?mail).{0,60}(?:could not|not deliver|was not|undeliver|cannot|returned|rejected|blocked)',
  '\\*+ ?message you sent blocked', 'smtp (?:delivery|mail) (?:failed|error|failure)', 'email (?:delivery|could not|not deliver|error)', 'delayed mail',
  '(?:e-?mail|mail|message|nachricht) (?:was |is )?(?:not|undeliver)', 'fehlernachricht', 'sorry, your message', 'unauthori[sz]ed mail', 'notice: mail',
  'no(?:n|t)-?deliverable',
  'mail failed', 'failed mail', 'mail failure', 'mail returned', 'problem (?:delivering|with)', 'error (?:in|while) (?:mail|deliver|send)',
 
  'e-?mail (?:not|delivery)', 'non remis', 'rejected', 'mail delivery',
  'unzustellbar', 'nicht zustellbar', 'nicht zugestellt', 'zustell', 'übermittlungsfehler', 'nachricht (?:konnte )?nicht', 'fehler bei', 'rückläufer',
  'benachrichtung zum übermittlung', 'mailzustellung', 'onbestelbaar', 'niet bezorgd', 'niet-bezorgd',
  'non ?remis', 'échec', 'echec', 'message non', 'courrier (?:non|retourn)', 'avis de non', 'notification (?:d.état|de non)', 'rapport de non', 'mail non', 'impossible de',
  'no se (?:puede|pudo|ha)', 'no entreg', 'error (?:de|en la|al) (?:entrega|env)', 'fallo', 'mensaje (?:no|devuelto)', 'correo (?:no|devuelto)',
  'notificaci[oó]n de (?:estado|error|fallo)', 'devuelto', 'devolu[cç]', 'mensagem (?:não|devolvida|rejeitada)', 'não (?:entreg|foi)', 'falha',
  'erro (?:de|na|no) (?:entrega|env)', 'e-?mail não',
  'mancat[ao] (?:recapito|consegna)', 'non recapitabil', 'messaggio non', 'impossibile', 'avviso di mancata', 'recapito', 'недостав', 'не ?доставл', 'ошибка', 'невозможно',
  'сообщение не', 'письмо не', 'возврат', 'уведомление о (?:не|состоянии)', 'неудач',
  'niedostarcz', 'nie dostarcz', 'nie można', 'zwrot', 'błąd', 'nedoruč', 'doručen', 'nelze', 'olevererb', 'kunde inte', 'kan ikke', 'ei voitu', 'toimitus', 'teslim edil',
  'iletilem', 'kézbesít',
  '系[统統]退信', '退信', '邮件(?:投递|发送|退回|无法|传输)', '郵件', '无法(?:投递|送达)', '無法', '未送达', '未傳遞', '未传递', '傳遞', '传递', '投递', '自动退信', '배달', '반송', '메일.{0,20}(?:전송|발송|배달)', '전송 ?실패', '수신 ?실패',
  '전달되지',
  '配[信送達]', 'メール(?:配|を?お?届け|送信|が|システム)', 'メッセージを?(?:配|が)', '送信(?:エラー|できません|失敗)', '送達', 'エラー', '宛先', 'あて先', '届きません', 'お届け', '不達', 'リターンメール', '返送'
].join('|')})`, 'iu')

/** Subjects that say so further on. */
export const SUBJECTS_WITHIN = new RegExp([
  'undeliver', 'deliver\\w{0,8} (?:fail|problem|error)', '(?:fail\\w{0,4}|errors?|problems?|unable|not) (?:\\w{1,20} ){0,2}(?:deliver|sent\\b)',
  'returned (?:e-?)?mail', 'mail (?:system )?error', 'non-?deliver',
  'nicht zu(?:ge)?stell', 'unzustellbar', 'fehlermeldung', 'zustellung fehl', 'mancat\\w* (?:recapito|consegna)',
  'non (?:remis|distribu|délivr|consegnat|recapitat|été)', 'pas (?:pu|été) (?:être )?(?:remis|distribu|délivr)',
  'no (?:entregad|se (?:pudo|puede|ha podido))', 'não (?:\\w+ )?entreg', 'недостав', 'не (?:было |была )?доставлен', '退信', '配信(?:不能|失敗|エラー)', '送信エラー', '반송',
  'nie dostarcz', 'nedoruč', 'nepodařilo doručit'
].join('|'), 'iu')

/** Of reports that announce no end, only a wait. */
export const DELAYS = anyOf('im', [
  /(?:^|\b)(?:has not (?:yet )?been delivered (?:to one|after|yet)|not yet been delivered|this is a warning message only|will (?:keep|continue) (?:on )?trying)/im,
  /(?:^|\b)(?:delivery attempts will continue|will be retried|has been delayed|is delayed|could not send message for past|i am still trying)/im,
  /(?:^|\b)(?:still (?:being )?(?:trying|retried|in the queue)|delivery to the following recipients has been delayed|message.{0,40}delayed \d|no action is required)/im,
  /(?:^|\b)(?:noch nicht zugestellt|wird weiter(?:hin)? versucht|verzögert|has been enqueued and undeliverable for|not been able to deliver your message after)/im
])

/** Of reports that all is well. */
export const SUCCESS_SUBJECTS = new RegExp([
  '^\\W{0,4}(?:success|delivered:|relayed:)', '\\((?:relay(?:ed)?|success|delivered)\\)', 'delivery (?:success|receipt|confirmation)', 'successful (?:mail )?delivery'
].join('|'), 'i')
export const SUCCESS = /(?:was|has been|been) (?:successfully (?:delivered|relayed)|delivered successfully)|delivery via |message has been (?:delivered|relayed) to/i

/** Subjects of mail from people who want no more. */
export const UNSUBSCRIBE = new RegExp(`^\\W{0,3}(?:re: ?)?(?:(?:${[
  'un-?subscribe', 'unsub', 'opt[ -]?out', 'remove me', 'abmelden', 'abbestellen', 'austragen', 'd[ée]sabonn\\p{L}*', 'd[ée]sinscri\\p{L}*', 'darse de baja',
  'cancela\\p{L}* (?:la )?(?:suscripci|assinatura|inscri)\\p{L}*', 'cancella\\p{L}* (?:iscrizione|mi)', 'disiscri\\p{L}*', 'descadastr\\p{L}*',
  'uitschrijven', 'afmelden', 'avregistrera', 'afmeld', 'avmeld', 'wypisz', 'odhlásit', 'отпис\\p{L}*', '退订', '退訂', '取消订阅', '配信停止', '購読解除', '수신거부'
].join('|')})(?=\\P{L}|$)|(?:remove|stop|baja|cancelar|cancellami)\\W*$)`, 'iu')
