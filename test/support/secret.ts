import { newSecret } from '#src/base/secret.ts'

/** JETPOST_SECRET of the apps that tests start, in this process and its children: a fixed one would be known to all,
 *  and no app starts with it. */
export const SECRET = (process.env.JETPOST_TEST_SECRET ??= newSecret(''))
