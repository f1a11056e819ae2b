import { Value } from '@sinclair/typebox/value'
import { ReplayWake, type WaitReason } from '#streams/replay/decide.ts'
import { subjects } from '#streams/subjects.ts'
import type { Bus } from '#src/nats/connect.ts'
import { readMessages } from '#src/nats/range.ts'
import { fireNow, schedule } from '#src/nats/schedule.ts'
import type { FactLog } from './fact-log.ts'

const SCHEDULE_TIMEOUT_MS = 5000
/** Far more than one endpoint may have under way; canceled ones may still have theirs. */
const WAITS_MAX = 100

/** Schedules a replay's next turn in `ms`. Safe to repeat: one replay, one schedule. Throws when NATS does not answer.
 */
export async function scheduleReplay (
  { bus, clock }: Pick<FactLog, 'bus' | 'clock'>,
  wake: ReplayWake,
  ms: number
): Promise<void> {
  const [subject, target] = [
    subjects.scheduleReplay(wake.webhook, wake.replay),
    subjects.dueReplay(wake.webhook, wake.replay)
  ]
  await schedule(bus, { subject, target, atMs: clock.nowMs() + ms, payload: wake }, SCHEDULE_TIMEOUT_MS)
}

/** Gives an endpoint's waiting replays their turn now. Safe to repeat. Throws when NATS does not answer. */
export async function wakeReplays ({ bus }: Pick<FactLog, 'bus'>, webhook: string): Promise<void> {
  await fireNow(bus, subjects.scheduleReplay(webhook, '*'), payload => (payload as ReplayWake).seq)
}

/** Throws for any other payload. */
export function wakeIn (bytes: Uint8Array): ReplayWake {
  return Value.Parse(ReplayWake, JSON.parse(Buffer.from(bytes).toString('utf8')))
}

/** Why an endpoint's replays wait, by their ids; only those with a schedule. Throws when NATS does not answer. */
export async function waitsOf (bus: Bus, webhook: string): Promise<Map<string, WaitReason>> {
  const position = { filter: subjects.scheduleReplay(webhook, '*'), afterSeq: 0 }
  const { messages } = await readMessages(bus, 'SCHEDULE', position, { max: WAITS_MAX })
  return new Map(messages.map(({ data }) => wakeIn(data)).map(({ replay, why }) => [replay, why]))
}
