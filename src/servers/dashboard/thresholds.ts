/** From where on something needs somebody: said once, for Overview and Operations alike. */

/** A share of mail that is held against its sender: above `rateMax`, once it is `partMin` of `ofMin` or more. */
interface RateThreshold {
  rateMax: number
  ofMin: number
  partMin: number
  /** What follows from it, for whoever is above. */
  advice: string
}

/** Above these, mailbox providers begin to put off or refuse a sender's mail: of fewer mails a single bounce says too
 *  much, and one complaint is no rate at all. Source: Gmail's and Yahoo's sender guidelines. */
export const BOUNCES: RateThreshold = {
  rateMax: 0.05,
  ofMin: 100,
  partMin: 1,
  advice: 'Above 5 % mail services begin to distrust the sender: see where the addresses come from.'
}
export const COMPLAINTS: RateThreshold = {
  rateMax: 0.001,
  ofMin: 100,
  partMin: 2,
  advice: "Above 0.1 % mail services begin to file the sender's mail as spam."
}

export function rateState (
  part: number,
  of: number,
  { rateMax, ofMin, partMin }: RateThreshold
): 'over' | 'near' | 'fine' {
  if (of < ofMin || part < partMin || part / of <= rateMax / 2) return 'fine'
  return part / of > rateMax ? 'over' : 'near'
}

/** Nobody notices less: who reads a view waits so long for it. */
const BUSY_S = 2
/** A view that is behind for so long is not merely busy. */
const BEHIND_S = 15

/** How a view stands that is so far behind the log. */
export function lagState ({ facts, seconds }: { facts: number, seconds: number }): 'up to date' | 'busy' | 'behind' {
  if (facts === 0 || seconds < BUSY_S) return 'up to date'
  return seconds < BEHIND_S ? 'busy' : 'behind'
}
