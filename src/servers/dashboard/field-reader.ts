import type { Faults } from './parts.ts'

/** Reads the fields of a link or a form one by one, and remembers what is wrong with them. */
export function createFieldReader (given: URLSearchParams) {
  const wrong = new Map<string, string>()
  return {
    /** The field as `parse` has it. undefined = empty, or `parse` gave null, which is recorded as `fault`. */
    read<T> (name: string, parse: (text: string) => T | null, fault: string): T | undefined {
      const text = fieldText(given, name)
      if (text === '') return undefined
      const value = parse(text)
      if (value === null) wrong.set(name, fault)
      return value ?? undefined
    },
    faults: (): Faults => ({
      of: name => wrong.get(name) ?? null,
      summary: wrong.size === 0 ? null : [...wrong.values()].join(' ')
    })
  }
}

export function fieldText (given: URLSearchParams, name: string): string {
  return given.get(name)?.trim() ?? ''
}
