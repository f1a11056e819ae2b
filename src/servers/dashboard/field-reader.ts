import type { Faults } from './parts.ts'

/** Takes what a link or a form holds, field by field, and remembers what is wrong with it. */
export function createFieldReader (given: URLSearchParams) {
  const wrong = new Map<string, string>()
  return {
    /** As `read` has it; undefined where nothing was typed, or where it has null, which is a fault. */
    take<T> (name: string, read: (text: string) => T | null, fault: string): T | undefined {
      const text = fieldText(given, name)
      if (text === '') return undefined
      const value = read(text)
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
