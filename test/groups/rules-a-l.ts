import { runFiles } from '../support/group.ts'

await runFiles('test/rules/[a-l]*.test.ts')
