import { runFiles } from '../support/group.ts'

await runFiles('test/journeys/[a-d]*.test.ts')
