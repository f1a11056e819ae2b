/** What starting a server of the tests needs. */
export type Opening = {
  /** Where it may keep things; removed after the run. */
  folder: string
  /** Takes a line of progress in plain words. */
  say: (text: string) => void
  /** Aborted = stop starting. */
  signal: AbortSignal
}

/** A NATS server of the tests, however it runs. */
export type TestNats = {
  host: string
  port: number
  /** Of every account. */
  password: string
  /** How it runs, for people. */
  about: string
  /** Set when it outlives the process that started it. */
  containerId: string | null
  stop(): Promise<void>
}
