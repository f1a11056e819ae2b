import { runFiles } from '../support/group.ts'

await runFiles('test/{.,bench,nats,peers,support}/*.test.ts')
