import { runFiles } from '../support/group.ts'

await runFiles('test/faults/*.test.ts')
