import { Type } from '@sinclair/typebox'
import { factType, Time } from '../define.ts'

/** The log was copied into a folder, which has it whole. The backup itself does not hold this. */
export const BackupCompleted = factType(
  'backup.completed',
  1,
  Type.Object({ startedAt: Time, sizeBytes: Type.Integer({ minimum: 0 }) })
)

export const backupFacts = [BackupCompleted] as const
