import type { Rule } from './rules.ts'

/** The same in other languages: Japanese, Chinese, Korean, French, German, Spanish, Portuguese, Italian, Russian,
 *  Polish, Dutch, Turkish, Czech and Slovak, Swedish, Danish and Norwegian, Finnish, Hungarian, Romanian, Greek.
 *  Written with or without accents: both are read without. */
export const WORLD: readonly Rule[] = [
  {
    class: 'mailboxfull',
    phrases: [
      '(メール|受信)?ボックス~(一杯|いっぱい|満杯|容量)',
      '容量(が|を)?~(超|オーバー|一杯|いっぱい|不足)',
      '容量超過',
      '受信(容量|制限)~超',
      'メールボックスに空き',
      '保存容量',
      '(邮箱|收件箱|郵箱|信箱|邮件箱|收件人邮箱)~(已?满|已滿|滿|空间不足|空間不足|超)',
      '(空间|空間|容量|配额|配額)(不足|已?满|已滿|已超)',
      '超(过|出|過)(了)?~(容量|配额|配額|空间)',
      '邮箱容量',
      '(메일함|편지함|메일박스|용량|받은편지함|저장공간)~(가득|초과|부족|꽉)',
      '(boite|messagerie|compte|casier|bal)~ (pleine|plein|saturee?|remplie)',
      'quota (de disque |disque |du destinataire |de boite )?(est )?(depasse|atteint)',
      'depass\\w{0,4}~ (quota|capacite|espace)',
      'boite pleine',
      '(postfach|mailbox|speicherplatz|posteingang|konto|speicher|quota|speicherlimit|postkorb|briefkasten)~ (voll|uberfullt|erschopft|uberschritten|ausgeschopft|' +
      'uberlauf)',
      'speicherplatz',
      '(buzon|casilla|bandeja|cuenta|cuota|almacenamiento|correo)~ (llen[oa]|excedid[oa]|superad[oa]|sin espacio|agotad[oa])',
      'ha excedido ~(cuota|capacidad|espacio|limite de almacenamiento)',
      'excede ~cuota',
      '(caixa|conta|cota|quota|armazenamento|espaco)~ (cheia|lotada|excedid[oa]|esgotad[oa]|cheio|superlotada|ultrapassad[oa])',
      '(casella|mailbox|quota|spazio|cartella)~ (piena|superat[ao]|esaurit[ao]|e piena|insufficiente|oltre)',
      '(ящик|почтовый ящик|квота|лимит|хранилищ\\w?)~ (переполнен\\w?|заполнен\\w?|превышен\\w?|полон)',
      'переполнен',
      'превышен\\w?~ (квот|объем|размер ящика)',
      '(skrzynk\\w{1,2}|limit|pojemnosc|konto)~ (pelna|przepelnion\\w{1,2}|przekroczon\\w{1,2}|jest pelna|zapelnion\\w)',
      'przepelnion',
      '(postvak|mailbox|postbus|inbox|brievenbus)~ (is )?(vol|te vol|overschreden)',
      'quotum',
      '(posta kutusu|kutusu|kota\\w{0,3}|gelen kutusu|depolama)~ (dolu|dolmus|asil\\w{1,5}|doldu|asmis)',
      '(schranka|kvota|schranky)~ (je )?(plna|prekrocena|preplnena|zaplnena)',
      '(brevladan?|postlada|inkorg|inkorgen|brevlada|lagringsutrymme)~ (ar )?(full|fullt|overfull)',
      '(postkasse|postkassen|indbakke|innboks|innboksen|kvote|kvoten)~ (er )?(fuld|full|overskredet|fyldt)',
      'postilaatikko~ taynna',
      'postalada~ (megtelt|tele)',
      'casuta~ plina',
      '(γραμματοκιβωτιο|θυριδα)~ (πληρες|γεματο|πληρης)'
    ]
  },
  {
    class: 'suspend',
    phrases: [
      '(アカウント|メールボックス|ユーザー?|利用者?|お客様)~(停止|無効|凍結|休止|ロック)',
      '(利用|受信|契約)(が)?停止',
      '(账户|账号|帐号|帐户|邮箱|用户|帳號|帳戶|使用者)~(被|已)?(禁用|停用|冻结|凍結|锁定|鎖定|暂停|暫停|过期|失效|未激活|注销)',
      '(계정|사용자|메일함|휴면)~(계정|정지|중지|비활성|휴면|잠금|차단|해지)',
      '(compte|boite|adresse|utilisateur|messagerie)~ (desactivee?|suspendue?|inactive?|bloquee?|verrouillee?|ferme|expiree?)',
      'inactive ou suspendue',
      '(konto|postfach|benutzer|mailbox|empfanger|adresse)~ (gesperrt|deaktiviert|inaktiv|stillgelegt|nicht aktiv|abgelaufen)',
      '(cuenta|buzon|usuario|casilla|direccion)~ (deshabilitad[oa]|desactivad[oa]|suspendid[oa]|inactiv[oa]|bloquead[oa]|inhabilitad[oa]|cancelad[oa])',
      '(conta|caixa|usuario|endereco|caixa postal)~ (desativad[oa]|desabilitad[oa]|suspens[oa]|inativ[oa]|bloquead[oa]|congelad[oa])',
      '(casella|account|utente|utenza)~ (disabilitat[oa]|sospes[oa]|disattivat[oa]|inattiv[oa]|bloccat[oa]|scadut[oa])',
      '(ящик|аккаунт|пользовател\\w{1,2}|почтовый ящик|адрес|учетная запись)~ (заблокирован\\w?|отключен\\w?|неактив\\w{0,3}|приостановлен\\w?|деактивирован\\w?|' +
      'не активен|временно)',
      '(konto|skrzynka|adres|uzytkownik)~ (zablokowan\\w{1,2}|zawieszon\\w|nieaktywn\\w|wylaczon\\w|dezaktywowan\\w|wygas\\w{1,2})',
      '(account|postvak|mailbox|adres|gebruiker)~ (geblokkeerd|uitgeschakeld|gedeactiveerd|opgeschort|inactief|niet actief|afgesloten)',
      '(hesap|hesabi|kullanici|posta kutusu)~ (devre disi|askiya|pasif|kapat\\w{1,5}|kilit\\w{1,3}|aktif degil|dondurul)',
      '(ucet|schranka|uzivatel|adresa)~ (zablokovan\\w?|deaktivovan\\w?|pozastaven\\w?|neaktivni|vypnut\\w|zrusen\\w?)',
      '(konto|kontot|brevladan|anvandaren|adressen)~ (avstangt|inaktivera\\w|inaktivt|sparrat|sparrad|stangt)',
      '(konto|kontoen|postkassen|brugeren|adressen)~ (deaktiveret|lukket|sparret|suspenderet|inaktiv|deaktivert|stengt)'
    ]
  },
  {
    class: 'hostunknown',
    phrases: [
      '(ドメイン|ホスト)名?~(存在し|見つか|不明|ありません|ない|解決)',
      '(域名|网域|網域|主机|域)(名)?~(不存在|未找到|找不到|无效|無效|无法解析|解析失败)',
      '(도메인|호스트)~(존재하지|찾을 수 없|없는|없습니다)',
      '(domaine|hote|serveur)~ (inconnue?|inexistant\\w?|introuvable|n existe pas|invalide)',
      '(domane?|domain|host|rechner|hostname|zieldomain|domainname)~ (existiert nicht|unbekannt|nicht gefunden|nicht existent|nicht auflosbar)',
      '(dominio|servidor|host)~ (no existe|inexistente|desconocido|no encontrado|no se encontro|nao existe|nao encontrado|invalido|desconhecido|inesistente|' +
      'sconosciuto|non esiste|non trovato|non valido)',
      '(домен|хост|узел)\\w?~ (не существует|не найден|неизвест\\w{2,3}|отсутствует)',
      '(domena|host)~ (nie istnieje|nieznan\\w|nie znaleziono|neexistuje|neznam\\w|nenalezen\\w)',
      '(domein|domeinnaam|host)~ (bestaat niet|onbekend|niet gevonden)',
      '(alan adi|etki alani|domain|sunucu)~ (bulunamadi|yok|mevcut degil|gecersiz)',
      '(domanen|domanet|domaenet|domenet|varden|vaert\\w{0,4})~ (finns inte|findes ikke|finnes ikke|okand|ukendt|ukjent|hittades inte)'
    ]
  },
  {
    class: 'userunknown',
    phrases: [
      '(宛先|ユーザー?|アドレス|メールアドレス|受信者|送信先|あて先|メールボックス|アカウント|お客様)~(存在し|見つか|不明|ありません|ございません|誤り|間違|無効|登録され|ない|わかりません|正しくあり|使われて|解約)',
      '(存在しない|無効な|不明な|誤った)~(宛先|ユーザー?|アドレス|受信者)',
      '宛先不明',
      '(用户|用戶|使用者|收件人|邮箱|郵箱|信箱|收件者|帐号|账号|帳號|地址|收信人|邮件地址|电子邮件地址|账户)~(不存在|未找到|找不到|没有找到|無效|无效|错误|錯誤|不正确|未注册|不可达|已删除|已刪除|未知)',
      '(无此|無此|没有此|沒有此|查无此|查無此|不存在的|没有这个|无效的|错误的|未知的?)~(用户|用戶|使用者|收件人|收件者|邮箱|信箱|帐号|人|地址|账号)',
      '(사용자|수신자|받는 ?사람|메일 ?주소|이메일 ?주소|계정|주소|아이디|메일함|편지함|수신인)~(존재하지|없는|없습니다|찾을 수 없|잘못|올바르지|알 수 없|탈퇴|삭제)',
      '(존재하지 않는|없는|알 수 없는|잘못된)~(사용자|수신자|계정|주소|메일|아이디)',
      '(utilisateur|destinataire|adresse|compte|boite|usager|abonne|messagerie|boite aux lettres|correspondant)s?~ (inconnue?s?|inexistant\\w{0,2}|introuvable|n ' +
      'existe (pas|plus)|invalide?|non trouvee?|non valide|erronee?|incorrecte?|n est (pas|plus) (valide|connue?|active?|utilisee?)|supprimee?|resiliee?)',
      'aucun (utilisateur|destinataire|compte)',
      'adresse d au moins un destinataire',
      'n existe pas',
      '(empfanger|benutzer|adresse|empfangeradresse|postfach|mailbox|konto|nutzer|teilnehmer|emailadresse|user|zieladresse|adressat|mailadresse|email ' +
      'adresse)\\w{0,3}~ (unbekannt|existiert nicht|existiert nicht mehr|nicht gefunden|nicht existent|nicht vorhanden|nicht bekannt|ungultig|nicht gultig|nicht ' +
      'erreichbar|nicht mehr|falsch|konnte nicht gefunden|wurde nicht gefunden|wurde geloscht|geloscht|gibt es nicht)',
      '(unbekannter?|ungultige[rs]?|kein|falsche[rs]?|nicht existierende[rs]?) (empfanger|benutzer|adresse|postfach|konto|nutzer|mailbox|emailadresse|adressat|' +
      'user|solche)',
      '(usuario|destinatario|direccion|buzon|cuenta|casilla|correo|mailbox|direccion de correo)~ (no existe|inexistente|desconocid[oa]|no encontrad[oa]|no ' +
      'valid[oa]|invalid[oa]|incorrect[oa]|no es valid[oa]|no se (ha )?encontr\\w{1,3}|no esta|erroneo|eliminad[oa])',
      'no existe (el|la|este|ese|ningun|esa|dicho|tal|un|una) ',
      '(usuario|destinatario|endereco|conta|caixa( postal)?|email|mailbox)~ (nao existe|inexistente|desconhecid[oa]|nao encontrad[oa]|invalid[oa]|nao ' +
      'localizad[oa]|nao foi encontrad[oa]|incorret[oa]|nao e valid[oa]|nao cadastrad[oa]|excluid[oa]|removid[oa])',
      'nao existe',
      '(utente|destinatario|indirizzo|casella|account|mailbox|utenza|casella di posta)~ (sconosciut[oa]|inesistente|non esiste|non trovat[oa]|non valid[oa]|' +
      'errat[oa]|non presente|inesist|cancellat[oa]|non e (piu )?(attiv|valid|presente)|non corretto|eliminat[oa])',
      'non esiste',
      '(пользовател\\w{1,2}|адрес\\w{0,3}|ящик\\w?|получател\\w{1,2}|адресат\\w?|аккаунт\\w?|учетн\\w{2} запис\\w)~ (не существует|не найден\\w?|неизвест\\w{2,3}|' +
      'недопустим\\w{0,3}|не известен|отсутствует|неверн\\w{2}|не зарегистрирован\\w?|удален\\w?|не обнаружен\\w?|недействител\\w{2,3}|недоступен)',
      '(недопустим\\w{0,3}|нет такого|неизвестный|несуществующ\\w{2,3}|не существует такого|неверный|не найден\\w?|такого)~ (пользовател|адрес|ящик|получател|' +
      'адресат|почтов)',
      'не существует',
      '(uzytkownik|adresat|odbiorca|adres|konto|skrzynka|uzytkownika|adresata|konta|odbiorcy)~ (nie istnieje|nieznan\\w|nie znaleziono|nieprawidlow\\w|nie ma|' +
      'niepoprawny|zostal[oa]? usuniet\\w|bledny)',
      '(nieznany|nie ma takiego|nieprawidlowy|nie znaleziono|brak|niepoprawny|bledny) (uzytkownika?|adresata?|adres|odbiorc\\w|konta?|skrzynki|takiego)',
      '(gebruiker|ontvanger|adres|geadresseerde|mailbox|postvak|account|emailadres|e mailadres)~ (bestaat niet|onbekend|niet gevonden|ongeldig|bestaat niet meer|' +
      'kan niet worden gevonden|niet bekend|niet geldig|verwijderd|onjuist)',
      '(onbekende?|ongeldige?|geen|niet bestaande?) (gebruiker|ontvanger|adres|emailadres|account|geadresseerde)',
      '(kullanici|alici|adres|hesap|posta kutusu|adresi|kullanicisi|hesabi)~ (bulunamadi|yok|mevcut degil|gecersiz|bilinmiyor|tanimsiz|gecerli degil|bulunamiyor|' +
      'hatali|silinmis)',
      '(bilinmeyen|gecersiz|boyle bir|tanimsiz|olmayan) (kullanici|alici|adres|hesap)',
      '(uzivatel|adresat|schranka|adresa|prijemce|ucet|prijemca|pouzivatel)~ (neexistuje|neznam\\w|nenalezen\\w?|neplatn\\w|nebyl\\w? nalezen|nenajden\\w?|zrusen\\w?)',
      '(neznamy|neplatny|neplatna|neexistujici|zadny) (uzivatel|adresat|prijemce|adresa|schranka|prijemca|pouzivatel)',
      '(anvandare|anvandaren|mottagare|mottagaren|adress|adressen|brevlada|brevladan|konto|kontot)\\w{0,2}~ (finns inte|finns ej|okand|hittades inte|existerar ' +
      'inte|ogiltig|saknas|kunde inte hittas|ar inte giltig)',
      '(okand|ogiltig|ingen sadan) (anvandare|mottagare|adress)',
      '(bruger|brugeren|modtager|modtageren|adresse|adressen|postkasse|postkassen|mottaker|mottakeren|konto|kontoen|brukeren|bruker)~ (findes ikke|finnes ikke|' +
      'ukendt|ukjent|eksisterer ikke|ugyldig|blev ikke fundet|ble ikke funnet|ikke fundet|ikke funnet)',
      '(ukendt|ukjent|ugyldig|ingen sadan) (bruger|modtager|adresse|mottaker|bruker)',
      '(kayttajaa|vastaanottajaa|osoitetta)~ (ei ole|ei loydy|tuntematon)',
      '(felhasznalo|cimzett|postafiok|cim)~ (nem letezik|ismeretlen|nem talalhato|ervenytelen)',
      '(utilizator\\w{0,3}|destinatar\\w{0,3}|adresa|casuta)~ (nu exista|necunoscut|inexistent\\w?|invalid\\w?)',
      '(χρηστης|παραληπτης|διευθυνση)~ (δεν υπαρχει|αγνωστ\\w{2}|δεν βρεθηκε)'
    ],
    unless: [
      'отправител',
      'expediteur',
      'absender',
      'remitente',
      'remetente',
      'mittente',
      '发件人',
      '發件人',
      '寄件',
      '送信者',
      '発信者',
      '보낸',
      '발신',
      'nadawc',
      'afzender',
      'gonderen',
      'odesilatel',
      'avsandare',
      'afsender',
      'avsender'
    ]
  },
  {
    class: 'rejected',
    phrases: [
      '(отправител\\w{1,2}|expediteur|absender\\w{0,8}|remitente|remetente|mittente|发件人|發件人|寄件者|送信者|発信者|발신자|보낸 ?사람|nadawc\\w|afzender|gonderen|odesilatel|' +
      'avsandare\\w?|afsender\\w?)~'
    ],
    unless: ['spam', 'ブラック', '黑名单']
  },
  {
    class: 'hasmoved',
    phrases: [
      '(adresse|compte|adresse email|mon adresse)~ (a change|changee)',
      'nouvelle adresse',
      '(neue|geanderte) (email|e-mail|mail)? ?adresse',
      'umgezogen',
      'nueva direccion',
      'novo endereco',
      'nuovo indirizzo',
      'nowy adres',
      '(メール)?アドレス(が|を)?変更',
      '(邮箱|地址)(已)?(变更|更改|变更为)',
      'новый адрес',
      'адрес изменен',
      'nieuw(e)? (email)?adres'
    ]
  },
  {
    class: 'filtered',
    phrases: [
      '受信(拒否|を拒否|しない設定|制限)',
      '受信者~拒否',
      '(受信|着信)拒否',
      '(收件人|对方|用户)~(拒收|拒绝|设置)',
      '수신(자|인)?(가|이)? ?(거부|차단)',
      '수신 ?거부',
      '迷惑メール(フィルタ|設定)',
      'фильтр получателя',
      'получатель (отказ|отклон)'
    ]
  },
  {
    class: 'mesgtoobig',
    phrases: [
      '(メール|メッセージ|サイズ|添付)~(サイズ|大き|超過|大きすぎ|超え)',
      '(邮件|信件|郵件|附件)(大小|过大|太大|太长|過大)',
      '(메일|메시지|첨부|용량)~(크기|너무 큽|너무 커)',
      '(message|mail|courriel|fichier|taille)~ (trop (gros|volumineux|grande?|long)|depasse)',
      'taille (du message|maximale?)',
      '(nachricht|mail|grosse|datei|anhang)~ (zu gross|uberschreitet|zu lang)',
      '(mensaje|mensagem|tamano|tamanho|messaggio|dimensione|correo|archivo)~ (demasiado grande|excede|supera|muito grande|troppo grande|grande demais|massima|' +
      'maximo|eccessiv)',
      '(сообщение|письмо|размер)~ (слишком большое|превыша|велик|больш)',
      '(wiadomosc|rozmiar)~ (za duz|zbyt duz|przekracza)',
      '(bericht|grootte)~ (te groot)',
      '(mesaj|ileti|boyut)~ (cok buyuk|buyuk|asiyor)',
      '(zprava|velikost)~ (prilis velka|prekroc)',
      '(meddelandet|meddelelsen|brevet)~ (for stort?|for stor)'
    ]
  },
  {
    class: 'virusdetected',
    phrases: ['ウイルス|ウィルス', '病毒', '바이러스', 'вирус', 'virenverdacht', 'viren\\b', 'wirus']
  },
  {
    class: 'spamdetected',
    phrases: [
      '迷惑メール',
      'スパム',
      '垃圾(邮件|郵件|信)',
      '스팸',
      'спам',
      'indesirables?',
      'pourriel',
      'unerwunscht',
      'no deseado',
      'correo basura',
      'lixo',
      'posta indesiderata',
      'niechcian',
      'ongewenst',
      'istenmeyen',
      'nevyzadan',
      'skrappost',
      '内容(被|包含|违规|不合)',
      '(邮件|信件)内容~(拒绝|违规|敏感|被拒)'
    ]
  },
  {
    class: 'blocked',
    phrases: [
      'ブラックリスト',
      '(接続|IP)~(拒否|ブロック|制限)',
      '黑名单|黑名單',
      'ip~(被|已)?(封|拒绝|拦截|屏蔽|阻止|限制)',
      '(차단|블랙리스트)',
      'черн\\w{2} спис',
      '(ip|сервер|хост)~ (заблокирован|запрещен|внесен)',
      '(заблокирован\\w?|запрещен\\w?)~ (ip|сервер|хост)',
      'liste noire',
      'lista (negra|nera)',
      'czarn\\w{2,3} li',
      'kara liste',
      'gesperrt',
      '(ip|adresse ip)~ (bloquee|refusee|rejetee|bloqueado|bloccato|zablokowan\\w|blokkeerd|engellen\\w{1,4})',
      'bloquead[oa]',
      'bloccat[oa]',
      'bloquee?',
      'engellendi',
      'zablokowan\\w',
      'zablokovan\\w'
    ]
  },
  {
    class: 'norelaying',
    phrases: [
      '中継(は|を|が)?~(拒否|禁止|許可|でき)',
      '(转发|中继|轉發|轉寄)~(拒绝|禁止|不允许|不支持)',
      '릴레이',
      'relais~ (refuse|interdit|non autorise)',
      'relaying~ (verboten|nicht erlaubt|verweigert)',
      'relay~ (no permitido|denegado|nao permitido|negado|non consentito|negato|nicht|niet|запрещ)',
      '(пересылк|ретрансляц|релей)\\w{0,3}~'
    ]
  },
  {
    class: 'speeding',
    phrases: [
      '(送信|接続)(数|回数|量|頻度)~(超|制限|多)',
      '短時間',
      '大量の?(メール|送信)',
      '(发送|发信|连接)?(频率|频繁|过快|次数)~(超|过|限|受限)?',
      '(너무 많은|발송 제한|속도)',
      '(слишком (много|часто|быстро)|превышен\\w?~ (лимит|частот|скорост))',
      'trop (de messages|rapide|de courriels|vite|de mails)',
      'zu (viele (nachrichten|emails|mails)|schnell|haufig)',
      'demasiados (mensajes|correos)',
      'muitas mensagens',
      'troppi messaggi',
      'zbyt (wiele|duzo|czesto)',
      'te veel (berichten|mails)',
      'cok fazla',
      'prilis mnoho'
    ]
  },
  {
    class: 'toomanyconn',
    phrases: [
      '接続数',
      '连接数|連線數',
      'trop de (connexions|destinataires)',
      'zu viele (verbindungen|empfanger)',
      'demasiad[oa]s (conexiones|destinatarios)',
      'muit[oa]s (conexoes|destinatarios)',
      'troppe connessioni|troppi destinatari',
      'слишком много (соединен|подключен|получател)'
    ]
  },
  {
    class: 'expired',
    phrases: [
      '(配信|配送|送信|再送)~(期限|時間切れ|断念|あきらめ)',
      '(投递|发送|投遞)(超时|逾时|时间过)',
      '(전송|배달)~(시간 ?초과|기한)',
      'delai~ (depasse|expire)',
      'zeit\\w{0,8} (abgelaufen|uberschritten)',
      'tiempo~ (agotado|expirado|excedido)',
      'tempo~ (esgotado|expirado|scaduto)',
      '(срок|время)~ (истек\\w{0,2}|превышен\\w?)',
      'przekroczon\\w{1,2} czas'
    ]
  },
  {
    class: 'networkerror',
    phrases: [
      '(接続|通信|サーバー?に)~(でき|失敗|エラー|タイムアウト)',
      '(连接|連線|连线|網路|网络|无法连接)~(失败|超时|失敗|错误|异常|对方)',
      '(无法|不能)连接',
      '(연결|접속|네트워크)~(실패|할 수 없|끊|오류|시간)',
      '(connexion|serveur)~ (impossible|interrompue|injoignable|refusee|echoue)',
      '(verbindung|server)~ (fehlgeschlagen|nicht moglich|abgebrochen|nicht erreichbar|unterbrochen)',
      '(conexion|conexao|connessione|servidor)~ (fallid[oa]|perdid[oa]|rechazad[oa]|falhou|recusad[oa]|fallita|rifiutata|persa)',
      '(соединен\\w{1,2}|подключен\\w{1,2}|связ\\w{1,2})~ (не удалось|разорвано|ошибк|прерван|отклонен)',
      'не удалось (установить|подключ|соедин)'
    ]
  },
  {
    class: 'policyviolation',
    phrases: [
      '(ポリシー|規約|制限)',
      '(策略|政策|规则|違反|违反)',
      '(정책|규정)',
      '(политик|правил)\\w',
      'politique',
      'richtlinie',
      'politicas?',
      'polityk',
      'beleid',
      'politika',
      'verboten',
      'nicht (erlaubt|zulassig)',
      'non autorise',
      'no (permitido|autorizado)',
      'nao (permitido|autorizado)',
      'non (consentito|autorizzato)'
    ]
  },
  {
    class: 'systemerror',
    phrases: [
      '(サーバー?|システム)~(エラー|障害|混雑|メンテナンス)',
      '(系统|服务器|服務器|伺服器|系統)~(错误|繁忙|故障|忙|异常|錯誤)',
      '(시스템|서버)~(오류|장애|점검)',
      '(erreur|probleme)~ (systeme|serveur|interne|temporaire|technique|local)',
      '(interner|technischer|temporarer) (fehler|problem)',
      '(error|problema|errore|erro)~ (interno|temporal|temporario|temporaneo|sistema|servidor|local)',
      '(внутренн\\w{2,3}|временн\\w{2}|техническ\\w{2,3}|системн\\w{2})~ (ошибк|сбой|проблем|неполадк)',
      '(blad|problem)~ (wewnetrzny|systemu|serwera|techniczny)'
    ]
  },
  {
    class: 'onhold',
    phrases: [
      '後(で|ほど)~(再|もう)',
      '(稍后|稍後)(再)?',
      '나중에',
      'plus tard',
      'spater',
      'mas tarde',
      'mais tarde',
      'piu tardi',
      'позже|позднее',
      'pozniej',
      'later opnieuw',
      'daha sonra',
      'pozdeji',
      'senare',
      'senere'
    ]
  }
]
