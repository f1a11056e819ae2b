/** What Node is told for a thread or process of ours, so that it can load our sources wherever they are installed. */
export const EXEC_ARGV = [`--import=${new URL('../strip-types.js', import.meta.url).href}`]
