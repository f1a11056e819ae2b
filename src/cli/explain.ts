import { readFileSync } from 'node:fs'
import { asError, Complaint } from '#src/base/errors.ts'
import { type CliCommand, misused, noVerb, readArgs, usageError } from './command.ts'
import { explainers } from './explain/explainers.ts'

const LF = 0x0a

/** The lines of a stream of bytes as text, however they are cut; null for one of over `bytesMax` bytes, which is not
 *  held. Only LF ends a line: JSON may hold every other character that readers of text take for an end. */
async function* linesOf (stream: AsyncIterable<Buffer>, bytesMax: number): AsyncGenerator<string | null> {
  let parts: Buffer[] = []
  let bytes = 0
  const take = (): string | null => {
    const line = bytes > bytesMax ? null : Buffer.concat(parts).toString()
    parts = []
    bytes = 0
    return line
  }
  const hold = (part: Buffer) => {
    bytes += part.length
    if (bytes > bytesMax) parts = []
    else parts.push(part)
  }
  for await (const chunk of stream) {
    let from = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, from)) {
      hold(chunk.subarray(from, end))
      yield take()
      from = end + 1
    }
    hold(chunk.subarray(from))
  }
  if (bytes > 0) yield take()
}

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

const options = {
  jsonl: { type: 'boolean', default: false },
  stage: { type: 'string' },
  data: { type: 'string' }
} as const

/** Longer than any mail that is kept in base64. */
const LINE_BYTES_MAX = 40 * 1024 * 1024

export const explain: CliCommand = {
  usage: `jetpost explain bounce < mail.eml
jetpost explain reply <reply> [--stage connect|ehlo|mail|rcpt|data]
jetpost explain render <template> [--data '{…}']
jetpost explain track|address|webhook-url|mime <input>
jetpost explain --jsonl`,
  details: `  Runs the very code that does the work. The input is the argument, or standard input (also as -): a mail
  for bounce, an SMTP reply for reply, html for track, a template for render, an address, a webhook's URL, the
  API's body for mime. The answer is JSON.
  --jsonl  one JSON object a line in, {"op","id",…}, and one out, until the input ends; bytes are base64`,
  async run (args) {
    // The reader has closed its end.
    process.stdout.on('error', () => process.exit())
    const { values, positionals } = readArgs(args, options)
    if (values.jsonl) return await explainLines()
    const [op = '', text = '-', ...rest] = positionals
    const explainer = Object.hasOwn(explainers, op) ? explainers[op] : undefined
    if (explainer === undefined) throw noVerb(explain, 'explain', op, Object.keys(explainers))
    if (rest.length > 0) throw misused(explain)
    if (op === 'bounce' && text !== '-') {
      throw usageError('The mail must be on standard input: jetpost explain bounce < mail.eml')
    }
    const answer = await answerOf(
      explainer,
      () => explainer.fromText(text === '-' ? readFileSync(0) : Buffer.from(text), values)
    )
    console.log(JSON.stringify(answer, null, 2))
    if ('error' in answer) process.exitCode = 1
  }
}

/** One line, one answer, in their order, until the input ends. */
async function explainLines (): Promise<void> {
  for await (const line of linesOf(process.stdin, LINE_BYTES_MAX)) {
    if (line?.trim() === '') continue
    const answer = `${JSON.stringify(await answerLine(line))}\n`
    if (!process.stdout.write(answer)) await new Promise(resolve => process.stdout.once('drain', resolve))
  }
}

async function answerLine (line: string | null): Promise<Record<string, unknown>> {
  const input = line === null ? null : parsed(line)
  if (input === null) {
    return { id: null, error: line === null ? `a line has at most ${LINE_BYTES_MAX} bytes` : 'not a JSON object' }
  }
  const { op, id = null } = input
  const explainer = typeof op === 'string' && Object.hasOwn(explainers, op) ? explainers[op] : undefined
  return {
    id,
    ...(explainer === undefined
      ? { error: `op is one of ${Object.keys(explainers).join(', ')}` }
      : await answerOf(explainer, () => input))
  }
}

function parsed (line: string): Input | null {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Input : null
  } catch {
    return null
  }
}

async function answerOf (explainer: Explainer, read: () => Input): Promise<Record<string, unknown>> {
  try {
    return await explainer.explain(read())
  } catch (error) {
    if (error instanceof Complaint) throw error
    // Whatever one input does, the next is still answered.
    return {
      error: error instanceof Unexplained ? error.message : `this input was too much: ${asError(error).message}`
    }
  }
}
