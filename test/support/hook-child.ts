/** The webhook role in a process of its own, to be killed: `hook-child.ts <NATS URL> [ChildOptions as JSON]`. Tells its
 *  parent by IPC once it runs, and ends with it. */
import { runHooks } from './hook-rig.ts'

process.on('disconnect', () => process.exit())
await runHooks(process.argv[2]!, JSON.parse(process.argv[3] ?? '{}'))
process.send?.('running')
