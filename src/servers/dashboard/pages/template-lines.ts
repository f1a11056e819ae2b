/** A line of a diff: `-` = only in the first text, `+` = only in the second, ` ` = in both. */
export interface DiffLine {
  sign: ' ' | '-' | '+'
  text: string
}

/** Pairs of lines that are compared; beyond that, all lines of one text come before those of the other. */
const PAIRS_MAX = 1_000_000

/** The diff of two texts by their longest common subsequence of lines. */
export function diffLines (before: string, after: string): DiffLine[] {
  const a = before === '' ? [] : before.split('\n')
  const b = after === '' ? [] : after.split('\n')
  const most = Math.min(a.length, b.length)
  let head = 0
  while (head < most && a[head] === b[head]) head++
  let tail = 0
  while (tail < most - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++
  return [
    ...a.slice(0, head).map(same),
    ...between(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same)
  ]
}

const same = (text: string): DiffLine => ({ sign: ' ', text })
const gone = (text: string): DiffLine => ({ sign: '-', text })
const added = (text: string): DiffLine => ({ sign: '+', text })

function between (a: string[], b: string[]): DiffLine[] {
  if (a.length * b.length > PAIRS_MAX || a.length === 0 || b.length === 0) return [...a.map(gone), ...b.map(added)]
  const width = b.length + 1
  // lengths[i * width + j] = lines in common from line i of a and line j of b on.
  const lengths = new Uint16Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j]
        ? lengths[(i + 1) * width + j + 1]! + 1
        : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!)
    }
  }
  const lines: DiffLine[] = []
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(same(a[i]!))
      i++
      j++
    } else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!)) {
      lines.push(gone(a[i++]!))
    } else lines.push(added(b[j++]!))
  }
  return lines
}
