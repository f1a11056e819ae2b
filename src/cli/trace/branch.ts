/** A line of a tree, and what hangs on it. */
export interface Branch {
  text: string
  under?: Branch[]
}

/** The tree as lines of text. */
export function linesOf ({ text, under = [] }: Branch): string[] {
  return [
    text,
    ...under.flatMap((branch, i) => {
      const last = i === under.length - 1
      const [first, ...rest] = linesOf(branch)
      return [`${last ? '└─' : '├─'} ${first}`, ...rest.map(line => `${last ? '  ' : '│ '} ${line}`)]
    })
  ]
}
