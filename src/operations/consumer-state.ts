import { counted, number } from '#src/base/figures.ts'
import type { ConsumerStatus } from '#src/nats/status.ts'

/** The state of a consumer in a word and a sentence. */
export interface ConsumerState {
  state: 'idle' | 'working' | 'behind' | 'stalled'
  text: string
}

/** More than a busy moment leaves pending. */
const BEHIND = 1000

/** What waits while a consumer is behind, and the role that works on it. */
const WORK: Record<string, [what: string, role: string]> = {
  sender: ['accepted emails wait to be sent', 'sender'],
  'sender-due': ['due emails and retries wait to be sent', 'sender'],
  inbound: ['inbound mail waits, so bounces and complaints show late', 'inbound'],
  reactions: ['addresses are suppressed late after bounces and complaints', 'projector'],
  'batch-members': ['events wait to be put into webhook batches', 'webhooks'],
  'batches-due': ['due webhook batches wait', 'webhooks'],
  replays: ['requested replays wait to start', 'webhooks'],
  'replays-due': ['replays wait to continue', 'webhooks']
}

export function consumerState ({ name, pending, ackPending, ackPendingMax, waiting }: ConsumerStatus): ConsumerState {
  const [what, role] = WORK[name] ?? ['its messages wait', 'of its own']
  const messages = counted(pending, 'message')
  if (pending === 0 && ackPending === 0) return { state: 'idle', text: 'Nothing pending.' }
  if (pending === 0) {
    return { state: 'working', text: `${counted(ackPending, 'message')} in progress or waiting for a retry.` }
  }
  if (waiting === 0 && ackPending === 0) {
    const advice = `Check that a process with the role ${role} runs.`
    return { state: 'stalled', text: `${messages} pending and no worker fetches them: ${what}. ${advice}` }
  }
  if (ackPending >= ackPendingMax) {
    const limit = `The limit of ${number(ackPendingMax)} unacknowledged messages is reached`
    return { state: 'behind', text: `${limit}, ${messages} pending: ${what}.` }
  }
  if (pending >= BEHIND) {
    const advice = `Start more processes with the role ${role} to share the work.`
    return { state: 'behind', text: `${messages} pending: ${what}. ${advice}` }
  }
  return { state: 'working', text: `${messages} pending.` }
}
