const PARTS: Record<string, string> = { '.': '\\.', '*': '[^.]+', '>': '.+' }

/** Whether a subject matches a filter: `*` is one token, `>` at the end is one or more. Source: NATS, "Subject-Based
 *  Messaging". */
export function subjectTest (filter: string): (subject: string) => boolean {
  const prefix = filter.slice(0, -1)
  if (filter.endsWith('>') && !prefix.includes('*')) {
    return subject => subject.length > prefix.length && subject.startsWith(prefix)
  }
  if (!filter.includes('*')) return subject => subject === filter
  const pattern = filter.replaceAll(/[.*>]|[^.*>\w-]/g, part => PARTS[part] ?? `\\${part}`)
  const expression = new RegExp(`^${pattern}$`)
  return subject => expression.test(subject)
}
