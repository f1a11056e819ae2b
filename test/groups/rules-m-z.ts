import { runFiles } from '../support/group.ts'

await runFiles('test/rules/[m-z]*.test.ts')
