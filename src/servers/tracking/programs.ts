/** Fetch a mail's pictures for its reader, or before there is one, and hide who and when: an open through them says
 *  that the mail arrived. */
const IMAGE_PROXIES = [
  // Gmail and Workspace, when the mail is opened.
  /GoogleImageProxy|via ggpht\.com/i,
  // Gmail, ahead of any reader: a browser that has not existed since 2015, with a tail of its own.
  /Edge\/12\.246 Mozilla\/5\.0$/,
  // Apple's privacy proxy gives no more of itself than this.
  /^Mozilla\/5\.0$/,
  /YahooMailProxy/i,
  /SeznamEmailProxy/i,
  /FastMail\//i
]

/** Look at where a link leads before, or instead of, a person. */
const LINK_CHECKERS = [
  // Office looks before it opens a browser; Outlook itself names MSIE and its own version between these words.
  /\(compatible; ms-office;/i,
  /Microsoft Office (Existence|Protocol) Discovery/i,
  /SafeLinks|BingPreview|SkypeUriPreview/i,
  /Barracuda|Mimecast|Proofpoint|IronPort|FireEye|Trend ?Micro|Symantec|MessageLabs|Sophos|Forcepoint/i
]

export const PROGRAMS: readonly RegExp[] = [...IMAGE_PROXIES, ...LINK_CHECKERS]

/** Mail programs and text browsers that people sit at: their short names look like a robot's. */
export const MAIL_PROGRAMS: readonly RegExp[] = [
  /^(Outlook-(iOS|Android)|MacOutlook|Microsoft Office)\//i,
  /Microsoft Outlook/i,
  /Thunderbird|Airmail|Postbox|Mailspring|BlueMail|eM ?Client|K-9 ?Mail|Android-?Mail|FairEmail|Lotus-Notes/i,
  /^(Spark|Canary|Evolution|KMail|Claws ?Mail|Sylpheed|Geary|Mutt|Mailbird|Mail|The Bat!?)([/ ]|$)/i,
  /^(Lynx|E?Links|w3m)([/ ]|$)/i
]
