import { LIMIT_CLASSES, type LimitClass } from '#streams/key/facts.ts'
import { usageError } from './command.ts'

/** Limits as a command takes and shows them: `emails:send=600 other=60`. */
export function pairsOf (limits: Partial<Record<LimitClass, number>>): string {
  return Object.entries(limits).map(([name, value]) => `${name}=${value}`).join(' ')
}

export function limitOfPair (pair: string): [LimitClass, number] {
  const [, name, value] = /^([^=]+)=(\d{1,8})$/.exec(pair) ?? []
  const known = LIMIT_CLASSES.find(one => one === name)
  if (known === undefined) {
    throw usageError(
      `${JSON.stringify(pair)} is no limit: it must be a class, = and a whole number. The classes are ${
        LIMIT_CLASSES.join(', ')
      }.`
    )
  }
  return [known, Number(value)]
}
