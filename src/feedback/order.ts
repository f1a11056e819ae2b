import type { BounceClass } from '#streams/email/classes.ts'
import type { Diagnostic } from './diagnostic.ts'
import { BLOCKS, CONTENT, JUDGED, PACE, POLICY, SPAM, VAGUE } from './rules-message.ts'
import { CLOSED, CLOSED_DOWN, FULL, NOBODY, PLAINLY_UNKNOWN, UNKNOWN } from './rules-recipient.ts'
import { SIGNATURES } from './rules-signatures.ts'
import { LOOPS, TRANSPORT } from './rules-transport.ts'
import { SENDER, STANDING, UNVERIFIED } from './rules-us.ts'
import { WORLD } from './rules-world.ts'
import { applies, compile, type Rule } from './rules.ts'

/** The order decides: blocks like to mention users, users are seldom told about blocks. */
export const RULES: readonly Rule[] = [
  ...UNVERIFIED,
  ...SIGNATURES,
  ...LOOPS,
  ...FULL,
  ...PLAINLY_UNKNOWN,
  ...NOBODY,
  ...CLOSED,
  ...CLOSED_DOWN,
  ...SENDER,
  ...STANDING,
  ...JUDGED,
  ...BLOCKS,
  ...PACE,
  ...CONTENT,
  ...SPAM,
  ...UNKNOWN,
  ...WORLD,
  ...POLICY,
  ...TRANSPORT,
  ...VAGUE
]

const MATCHERS = RULES.map(compile)

/** What the words say, or null when they say nothing. */
export function classOfWords (diagnostic: Diagnostic): BounceClass | null {
  return MATCHERS.find(matcher => applies(matcher, diagnostic))?.rule.class ?? null
}
