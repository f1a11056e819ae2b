import type { WebhookEntry } from '#streams/directory.ts'
import { REPLAY_PACE } from '#streams/replay/decide.ts'
import { ReplayRequested } from '#streams/replay/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Append } from '#src/nats/append.ts'
import { loadLast } from '#src/nats/load.ts'
import { advanceFanout, type FanoutCursor } from './delivery.ts'
import { stamp, type Appenders } from './appenders.ts'

/** The id of an endpoint's backfill: it has one at most, and any replay asked for later has a greater id. */
export function backfillId (webhook: string): string {
  return `rpl_${webhook.slice('wh_'.length)}`
}

/** Has an endpoint's backfill been opened? Throws when the log cannot be read. */
export async function isBackfillOpen ({ bus }: Pick<Appenders, 'bus'>, webhook: string): Promise<boolean> {
  return await loadLast(bus, 'WEBHOOKS', subjects.replay(webhook, backfillId(webhook))) !== null
}

/** Opens the backfills of endpoints of one partition together with the move of its cursor to `through`: what lies up to
 *  there is the backfill's, what comes after is the fan-out's. Null, and nothing is appended, when the cursor is no
 *  longer where it was read or one of them is open already. Throws LogUnavailable. */
export async function openBackfills (
  appenders: Appenders,
  partition: number,
  cursor: FanoutCursor,
  through: number,
  webhooks: WebhookEntry[]
): Promise<FanoutCursor | null> {
  const nowMs = appenders.clock.nowMs()
  return await advanceFanout(
    appenders,
    partition,
    cursor,
    through,
    webhooks.map(webhook => openingOf(webhook, through, nowMs))
  )
}

function openingOf ({ id: webhook, account, startAt: from }: WebhookEntry, through: number, nowMs: number): Append {
  const replay = backfillId(webhook)
  const data = {
    replay,
    webhook,
    what: 'backfill',
    from,
    to: timestamp(nowMs),
    through,
    pace: REPLAY_PACE,
    place: '',
    made: 0
  } as const
  // The ask that made the endpoint is not known here: what follows is held together by the backfill's own id.
  const fact = stamp(ReplayRequested, { account, correlation: replay, causation: null }, data, nowMs)
  return { subject: subjects.replay(webhook, replay), fact, expectedSeq: 0 }
}
