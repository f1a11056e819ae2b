import { runFiles } from '../support/group.ts'

await runFiles('test/faults/[a-c]*.test.ts')
