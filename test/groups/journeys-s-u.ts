import { runFiles } from '../support/group.ts'

await runFiles('test/journeys/[s-u]*.test.ts')
