import type { IncomingHttpHeaders } from 'node:http'
import { isbot } from 'isbot'

/** They fetch a mail's images for its reader, or before anybody reads it, and hide by whom and when. An open through
 *  them says only that the mail arrived. */
const IMAGE_PROXIES = [
  // Gmail and Workspace, when the mail is opened.
  /GoogleImageProxy|via ggpht\.com/i,
  // Gmail, ahead of any reader: a browser that has not existed since 2015, with a tail of its own.
  /Edge\/12\.246 Mozilla\/5\.0$/,
  // Apple's privacy proxy sends nothing more than this.
  /^Mozilla\/5\.0$/,
  /YahooMailProxy/i,
  /SeznamEmailProxy/i,
  /FastMail\//i
]

/** They follow a link before, or instead of, a person. */
const LINK_CHECKERS = [
  // Office follows a link before it opens a browser; Outlook itself names MSIE and its version between these words.
  /\(compatible; ms-office;/i,
  /Microsoft Office (Existence|Protocol) Discovery/i,
  /SafeLinks|BingPreview|SkypeUriPreview/i,
  /Barracuda|Mimecast|Proofpoint|IronPort|FireEye|Trend ?Micro|Symantec|MessageLabs|Sophos|Forcepoint/i
]

const PROGRAMS: readonly RegExp[] = [...IMAGE_PROXIES, ...LINK_CHECKERS]

/** Mail programs and text browsers that people use: their short names look like a robot's. */
const MAIL_PROGRAMS: readonly RegExp[] = [
  /^(Outlook-(iOS|Android)|MacOutlook|Microsoft Office)\//i,
  /Microsoft Outlook/i,
  /Thunderbird|Airmail|Postbox|Mailspring|BlueMail|eM ?Client|K-9 ?Mail|Android-?Mail|FairEmail|Lotus-Notes/i,
  /^(Spark|Canary|Evolution|KMail|Claws ?Mail|Sylpheed|Geary|Mutt|Mailbird|Mail|The Bat!?)([/ ]|$)/i,
  /^(Lynx|E?Links|w3m)([/ ]|$)/i
]

/** Requests for a page before anybody wants to see it. */
const AHEAD = /\b(prefetch|prerender|preview)\b/i
const AHEAD_HEADERS = ['purpose', 'sec-purpose', 'x-purpose', 'x-moz']

/** True when the headers of a GET show a program, and not a person's browser or mail program. Whether it came too early
 *  for a person needs the facts of the mail: see `streams/email/engagements.ts`. */
export function isProgram (headers: IncomingHttpHeaders): boolean {
  if (AHEAD_HEADERS.some(name => AHEAD.test(String(headers[name] ?? '')))) return true
  const agent = headers['user-agent']?.trim() ?? ''
  if (agent === '' || PROGRAMS.some(pattern => pattern.test(agent))) return true
  return !MAIL_PROGRAMS.some(pattern => pattern.test(agent)) && isbot(agent)
}
