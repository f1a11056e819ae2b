import { runFiles } from '../support/group.ts'

await runFiles('test/projections/*.test.ts')
