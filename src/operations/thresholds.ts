/** A share of mail that mailbox providers hold against its sender. */
interface RateThreshold {
  /** Above this share the sender is in trouble. */
  rateMax: number
  /** Mails that a rate is counted from. */
  ofMin: number
  /** Bounces or complaints that a rate is counted from. */
  partMin: number
  /** What follows from a rate above it. */
  advice: string
}

/** Above these, mailbox providers begin to defer or refuse a sender's mail. Of fewer mails a single bounce would weigh
 *  too much, and one complaint is no rate. Source: Gmail's and Yahoo's sender guidelines. */
export const BOUNCES: RateThreshold = {
  rateMax: 0.05,
  ofMin: 100,
  partMin: 1,
  advice: 'Above 5 % mailbox providers lose trust in the sender. Check where the addresses come from.'
}
export const COMPLAINTS: RateThreshold = {
  rateMax: 0.001,
  ofMin: 100,
  partMin: 2,
  advice: "Above 0.1 % mailbox providers file the sender's mail as spam."
}

/** `near` = above half of the threshold. */
export function rateState (
  part: number,
  of: number,
  { rateMax, ofMin, partMin }: RateThreshold
): 'over' | 'near' | 'fine' {
  if (of < ofMin || part < partMin || part / of <= rateMax / 2) return 'fine'
  return part / of > rateMax ? 'over' : 'near'
}

/** As long as this a read waits for a projection, so nobody notices less. */
const BUSY_S = 2
/** A projection that is behind for so long is not merely busy. */
const BEHIND_S = 15

/** The state of a projection that is so far behind the log. */
export function lagState ({ facts, seconds }: { facts: number, seconds: number }): 'up to date' | 'busy' | 'behind' {
  if (facts === 0 || seconds < BUSY_S) return 'up to date'
  return seconds < BEHIND_S ? 'busy' : 'behind'
}
