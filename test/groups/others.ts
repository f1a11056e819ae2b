import { runFiles } from '../support/group.ts'

await runFiles('test/{.,bench,clients,nats,peers,support}/*.test.ts')
