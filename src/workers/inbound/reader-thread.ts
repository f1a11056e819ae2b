import { parentPort } from 'node:worker_threads'
import { readReport } from '#src/feedback/report.ts'

parentPort!.on('message', async (raw: Uint8Array) => parentPort!.postMessage(await readReport(raw)))
parentPort!.postMessage('ready')
