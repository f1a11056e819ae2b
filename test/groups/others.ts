import { runFiles } from '../support/group.ts'

await runFiles('test/{.,nats,peers,support}/*.test.ts')
