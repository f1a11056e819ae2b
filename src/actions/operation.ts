import { OperationRequested, type OperationRequest } from '#streams/operation/facts.ts'
import type { Asker } from './services.ts'
import { askedBy, stamp, type FactLog } from './fact-log.ts'

/** Says in the log who gives a command whose own facts are not kept, before it is done. Throws LogUnavailable. */
export async function noteOperation (
  { append, clock }: Pick<FactLog, 'append' | 'clock'>,
  asker: Asker,
  request: OperationRequest
): Promise<void> {
  await append([{ fact: stamp(OperationRequested, askedBy(asker), request, clock.nowMs()) }])
}
