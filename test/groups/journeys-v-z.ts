import { runFiles } from '../support/group.ts'

await runFiles('test/journeys/[v-z]*.test.ts')
