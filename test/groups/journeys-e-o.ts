import { runFiles } from '../support/group.ts'

await runFiles('test/journeys/[e-o]*.test.ts')
