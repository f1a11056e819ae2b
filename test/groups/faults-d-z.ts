import { runFiles } from '../support/group.ts'

await runFiles('test/faults/[d-z]*.test.ts')
