import { runFiles } from '../support/group.ts'

await runFiles('test/journeys/[p-r]*.test.ts')
