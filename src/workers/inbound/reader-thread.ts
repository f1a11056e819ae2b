import { parentPort } from 'node:worker_threads'
import type { InboundReported } from '#streams/inbound/facts.ts'
import { readStatement } from '#src/feedback/relays/statement.ts'
import { readReport } from '#src/feedback/report.ts'

parentPort!.on(
  'message',
  async (said: Uint8Array | InboundReported['data']) =>
    parentPort!.postMessage(said instanceof Uint8Array ? await readReport(said) : readStatement(said))
)
parentPort!.postMessage('ready')
