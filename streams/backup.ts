/** What a backup holds, in the order in which it is copied and put back: effects before causes. Nothing stands still
 *  meanwhile, and what is copied later has seen more: of every fact about a delivery the endpoint and the event are
 *  there, of every suppression the bounce, of every fact about an email its request, of every request its content. The
 *  other way round a fact could point at what the backup never had. Put back in this order, who asks what was done
 *  so far is never told less than the log knew. Not here: SCHEDULE, which the reconciler makes again, and what lives
 *  for minutes. */
export const BACKED_UP = ['WEBHOOKS', 'CONTROL', 'EMAILS', 'REQUESTS', 'INBOUND', 'OBJ_CONTENT'] as const

export type BackedUp = typeof BACKED_UP[number]

/** Stands in the metadata of a stream's configuration from the first byte of a restore until all streams are back:
 *  nobody may work on such a log. */
export const RESTORING = 'jetpost.restoring'
