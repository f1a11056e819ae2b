import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { BackupCompleted } from '#streams/backup/facts.ts'
import { subjects } from '#streams/subjects.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import { stamp, type FactLog } from './fact-log.ts'

/** Records that a backup is complete. Throws LogUnavailable. */
export async function recordBackup (
  { append, clock }: Pick<FactLog, 'append' | 'clock'>,
  correlation: string,
  backup: { startedAt: string, sizeBytes: number }
): Promise<void> {
  const cause = { account: FIRST_ACCOUNT, correlation, causation: null }
  await append([{ fact: stamp(BackupCompleted, cause, backup, clock.nowMs()) }])
}

/** When the last complete backup was begun, RFC 3339; null = there is none. Throws when NATS does not answer. */
export async function lastBackup (bus: Bus): Promise<string | null> {
  const last = await getFact(bus, 'CONTROL', { last_by_subj: subjects.backup(FIRST_ACCOUNT) }, 'leader')
  return last?.fact.type === 'backup.completed' ? last.fact.data.startedAt : null
}
