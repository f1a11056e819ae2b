import { runFiles } from '../support/group.ts'

await runFiles('test/rules/*.test.ts')
