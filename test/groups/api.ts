import { runFiles } from '../support/group.ts'

await runFiles('test/api/*.test.ts')
