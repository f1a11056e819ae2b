const PASSED = /^(PATH|HOME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TZDIR|TMPDIR|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH)$/

/** The environment of a server that is no part of Jetpost: what programs need to run, and none of our secrets. */
export function serverEnv (): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED.test(name)))
}
