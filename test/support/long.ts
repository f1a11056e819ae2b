/** Whether there is time for long runs and large sizes: `npm run test:long`. */
export const LONG = process.env.JETPOST_TEST_LONG === '1'

/** For a test whose like is shown by a shorter one each time. */
export const LONG_ONLY = { skip: LONG ? false : 'npm run test:long' }
