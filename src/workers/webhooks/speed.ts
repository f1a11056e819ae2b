/** How many ended in the last whole second, or already in this one. */
export interface Speed {
  ended(): void
  aSecond(): number
}

export function createSpeed (nowMs: () => number): Speed {
  let [second, now, before] = [0, 0, 0]

  function turn (): void {
    const current = Math.floor(nowMs() / 1000)
    if (current === second) return
    before = current === second + 1 ? now : 0
    second = current
    now = 0
  }

  return {
    ended () {
      turn()
      now++
    },
    aSecond () {
      turn()
      return Math.max(now, before)
    }
  }
}
