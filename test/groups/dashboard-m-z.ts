import { runFiles } from '../support/group.ts'

await runFiles('test/dashboard/[m-z]*.test.ts')
