import { currentSubtest } from './group.ts'

/** What a test file that runs in a group imports as `tap`; see group.ts. */
export const t = currentSubtest()
export default t
