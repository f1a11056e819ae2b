import { runFiles } from '../support/group.ts'

await runFiles('test/dashboard/[a-l]*.test.ts')
