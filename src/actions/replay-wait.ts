import { Value } from '@sinclair/typebox/value'
import { ReplayWake, type WaitReason } from '#streams/replay/wait.ts'
import { subjects } from '#streams/subjects.ts'
import type { Bus } from '#src/nats/connect.ts'
import { readMessages } from '#src/nats/range.ts'
import { fireNow, schedule } from '#src/nats/schedule.ts'
import type { Appenders } from './appenders.ts'

const SCHEDULE_TIMEOUT_MS = 5000
/** Far more than may be under way of one endpoint; canceled ones may still have theirs. */
const WAITS_MAX = 100

/** Has a replay looked at again in `ms`. Safe to repeat: one replay, one schedule. Throws when NATS does not answer. */
export async function wakeReplayIn (
  { bus, clock }: Pick<Appenders, 'bus' | 'clock'>,
  wake: ReplayWake,
  ms: number
): Promise<void> {
  const [subject, target] = [
    subjects.scheduleReplay(wake.webhook, wake.replay),
    subjects.dueReplay(wake.webhook, wake.replay)
  ]
  await schedule(bus, { subject, target, atMs: clock.nowMs() + ms, payload: wake }, SCHEDULE_TIMEOUT_MS)
}

/** Has an endpoint's replays that wait looked at now. Safe to repeat. Throws when NATS does not answer. */
export async function wakeReplays ({ bus }: Pick<Appenders, 'bus'>, webhook: string): Promise<void> {
  await fireNow(bus, subjects.scheduleReplay(webhook, '*'), payload => (payload as ReplayWake).seq)
}

/** Throws for a text that is none. */
export function wakeIn (bytes: Uint8Array): ReplayWake {
  return Value.Parse(ReplayWake, JSON.parse(Buffer.from(bytes).toString('utf8')))
}

/** What an endpoint's replays wait for, by their ids: those that wait for longer. Throws when NATS does not answer. */
export async function waitsOf (bus: Bus, webhook: string): Promise<Map<string, WaitReason>> {
  const position = { filter: subjects.scheduleReplay(webhook, '*'), afterSeq: 0 }
  const { messages } = await readMessages(bus, 'SCHEDULE', position, { max: WAITS_MAX })
  return new Map(messages.map(({ data }) => wakeIn(data)).map(({ replay, why }) => [replay, why]))
}
