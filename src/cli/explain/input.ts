/** A line of `--jsonl`, or its like from the command line. */
export type Input = Record<string, unknown>

/** Says what Jetpost makes of an input; `fromText` = the input of a command line. Source: contract, "jetpost explain".
 */
export interface Explainer {
  explain(input: Input): Promise<Record<string, unknown>> | Record<string, unknown>
  fromText(bytes: Buffer, flags: { stage?: string, data?: string }): Input
}

/** An input that is not one. */
export class Unexplained extends Error {
  override name = 'Unexplained'
}
